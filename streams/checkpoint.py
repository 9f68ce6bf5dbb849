"""What a checkpoint writes, in which order, and how its rows are trusted again (S2, S3).

Rows first, awaited; then the marker, awaited. Faust's tables have a changelog topic each and their
writes can be half done when a worker dies, so a marker proves nothing by being there: it carries a
checksum of each live row, and only rows that fit it are used.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

# Row key to checksum, of one pool.
Checksums = Mapping[str, str]


class Store(Protocol):
    """The rows of one partition; keys as `rows.to_rows` makes them."""

    def get(self, key: str) -> bytes | None:
        """The row, or None when there is none."""

    def put(self, key: str, row: bytes) -> None:
        """Write a row; it counts once `settle` has returned."""

    def delete(self, key: str) -> None:
        """Delete a row; it counts once `settle` has returned."""

    async def settle(self) -> None:
        """Return when the broker has acknowledged all that was written."""


@dataclass(frozen=True, slots=True)
class Marker:
    """Where a partition stands: all messages below `next_offset` are in the rows."""

    next_offset: int
    arithmetic: int
    pools: Mapping[str, Checksums]


MARKER = "pools"  # its key: no row of a pool is called so, those have a slash


def checksum(row: bytes) -> str:
    """Sixteen hexadecimal digits that tell one row from another."""
    return blake2b(row, digest_size=8).hexdigest()


def checksums(rows: Mapping[str, bytes]) -> dict[str, str]:
    """The checksum of each row."""
    return {key: checksum(row) for key, row in rows.items()}


async def write(store: Store, rows: Mapping[str, bytes], before: Checksums, marker: Marker) -> None:
    """Write a checkpoint: the rows that differ from `before`, then the marker (S2).

    `rows` are all live rows of the pools that changed; keys of `before` that they lack are deleted.
    Returns when the broker has acknowledged everything.
    """
    for key, row in rows.items():
        if before.get(key) != checksum(row):
            store.put(key, row)
    for key in before.keys() - rows.keys():
        store.delete(key)
    await store.settle()
    store.put(MARKER, encode_marker(marker))
    await store.settle()


def read_marker(store: Store) -> Marker | None:
    """The newest marker, or None when the partition has none that this version can read."""
    data = store.get(MARKER)
    try:
        return None if data is None else decode_marker(data)
    except (ValueError, LookupError, TypeError):
        return None


def read_rows(store: Store, marker: Marker) -> dict[str, dict[str, bytes]] | None:
    """Each pool's rows as the marker has them, or None if a single one does not fit (S3)."""
    pools: dict[str, dict[str, bytes]] = {}
    for pool, sums in marker.pools.items():
        rows = dict(_fitting(store, sums))
        if len(rows) < len(sums):
            return None
        pools[pool] = rows
    return pools


def _fitting(store: Store, sums: Checksums) -> Iterator[tuple[str, bytes]]:
    for key, wanted in sums.items():
        row = store.get(key)
        if row is not None and checksum(row) == wanted:
            yield key, row


def encode_marker(marker: Marker) -> bytes:
    """The marker as bytes: JSON, so that a person can read it in the changelog."""
    content = {
        "next_offset": marker.next_offset,
        "arithmetic": marker.arithmetic,
        "pools": {pool: dict(sums) for pool, sums in marker.pools.items()},
    }
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def decode_marker(data: bytes) -> Marker:
    """The marker in `data`."""
    content = json.loads(data)
    return Marker(content["next_offset"], content["arithmetic"], content["pools"])
