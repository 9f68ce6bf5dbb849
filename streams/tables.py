"""The Faust tables that hold a partition's rows between runs.

A row's key begins with its table's name; in the table it stands behind the partition's number, so
that no two partitions have the same key. Values are bytes.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import faust

from streams.config import Config
from tokenweir.errors import Unavailable

TABLES = ("consumption", "ewma", "debt", "pools")  # of the control workers
EVENT_TABLES = ("seen", "pools")  # of the workers that gather events
QUOTA_TABLES = ("shared", "pools")  # of the workers that share quotas between pools
SETTLE_S = 120.0  # longer than a broker needs to come back


def application_id(config: Config, role: str = "control") -> str:
    """The consumer group of the workers of a role, and what their tables' topics begin with."""
    return f"{config.topic_prefix}{config.application}-{role}"


def changelog_name(config: Config, table: str, role: str = "control") -> str:
    """The topic behind a table, as Faust names it."""
    return f"{application_id(config, role)}-{table}-changelog"


class RememberingTable(faust.Table[bytes, bytes]):
    """A table that keeps the promises of its writes, which Faust drops.

    `app.producer.flush()` can return before everything is acknowledged; these cannot.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.promises: list[asyncio.Future[Any]] = []

    def send_changelog(self, *args: Any, **kwargs: Any) -> Any:
        """As Faust does it, and remember the promise."""
        promise = super().send_changelog(*args, **kwargs)
        self.promises.append(promise)
        return promise


Tables = Mapping[str, RememberingTable]


def declare_tables(app: faust.App, config: Config, names: Sequence[str] = TABLES) -> Tables:
    """The tables of `app`, by name; one of them is called `pools` and holds the markers."""
    return {name: _declare(app, config, name) for name in names}


def _declare(app: faust.App, config: Config, name: str) -> RememberingTable:
    table = RememberingTable(
        app,
        name=name,
        key_type=bytes,
        value_type=bytes,
        partitions=config.partitions,
        options={"driver": "rocksdict", **ROCKSDB},
    )
    app.tables.add(table)
    return table


# Each partition of each table is a RocksDB of its own: the defaults would let every one of them
# take 2 GiB of cache and 192 MiB of write buffers.
ROCKSDB = {"block_cache_size": 8 << 20, "write_buffer_size": 4 << 20, "max_open_files": 64}


class PartitionTables:
    """The rows of one partition, in the tables; used only while one of its events is processed."""

    def __init__(self, app: faust.App, tables: Tables, partition: int) -> None:
        self.app, self.tables, self.partition = app, tables, partition

    def get(self, key: str) -> bytes | None:
        """The row, or None when there is none."""
        row: bytes | None = self._table(key).get(self._key(key))
        return row

    def put(self, key: str, row: bytes) -> None:
        """Write a row; it counts once `settle` has returned."""
        self._table(key)[self._key(key)] = row

    def delete(self, key: str) -> None:
        """Delete a row; it counts once `settle` has returned."""
        del self._table(key)[self._key(key)]

    async def settle(self) -> None:
        """Return when the broker has acknowledged all writes; raises `Unavailable` if it does not.

        Faust's own flush is awaited too: it starts what waits in Faust's buffer (S2).
        """
        await self.app.producer.flush()
        promises = [p for table in self.tables.values() for p in table.promises]
        for table in self.tables.values():
            table.promises.clear()
        try:
            async with asyncio.timeout(SETTLE_S):
                await asyncio.gather(*promises)
        except TimeoutError as error:
            raise Unavailable(
                f"the broker has not acknowledged table rows for {SETTLE_S:.0f} s: is it up?"
            ) from error

    def _table(self, key: str) -> RememberingTable:
        return self.tables[key.split("/", 1)[0]]

    def _key(self, key: str) -> bytes:
        return f"{self.partition}/{key}".encode()
