"""S2 and S3: rows, then the marker; only rows that the marker's checksums fit are trusted."""

import pytest

from streams.checkpoint import (
    MARKER,
    Marker,
    checksums,
    decode_marker,
    encode_marker,
    read_marker,
    read_rows,
    write,
)


class Crash(Exception):
    """The worker dies here."""


class Rows:
    """A store in memory that dies at the n-th write or settling, or never."""

    def __init__(self, rows: dict[str, bytes] | None = None, dies_at: int = 0) -> None:
        self.rows, self.dies_at, self.steps = dict(rows or {}), dies_at, 0
        self.done: list[str] = []

    def get(self, key: str) -> bytes | None:
        return self.rows.get(key)

    def put(self, key: str, row: bytes) -> None:
        self._step(f"put {key}")
        self.rows[key] = row

    def delete(self, key: str) -> None:
        self._step(f"delete {key}")
        del self.rows[key]

    async def settle(self) -> None:
        self._step("settle")

    def _step(self, what: str) -> None:
        self.steps += 1
        if self.steps == self.dies_at:
            raise Crash(what)
        self.done.append(what)


OLD = {"ewma/chat/0": b"old rate", "pools/chat": b"old pool", "pools/chat/gw-1": b"gone soon"}
NEW = {"ewma/chat/0": b"old rate", "pools/chat": b"new pool", "pools/chat/gw-2": b"came"}


def marker(next_offset: int, rows: dict[str, bytes]) -> Marker:
    return Marker(next_offset, 1, {"chat": checksums(rows)})


async def checkpointed() -> Rows:
    store = Rows()
    await write(store, OLD, {}, marker(10, OLD))
    return Rows(store.rows)


async def test_s2_changed_rows_are_settled_before_the_marker_is_written() -> None:
    store = await checkpointed()
    await write(store, NEW, checksums(OLD), marker(20, NEW))
    assert store.done == [
        "put pools/chat",
        "put pools/chat/gw-2",
        "delete pools/chat/gw-1",
        "settle",
        "put pools",
        "settle",
    ]


async def test_s3_a_whole_checkpoint_is_read_back() -> None:
    store = await checkpointed()
    await write(store, NEW, checksums(OLD), marker(20, NEW))
    found = read_marker(store)
    assert found == marker(20, NEW)
    assert read_rows(store, found) == {"chat": NEW}


@pytest.mark.parametrize("dies_at", range(1, 5))
async def test_s3_a_crash_before_the_marker_leaves_rows_that_are_not_trusted(dies_at: int) -> None:
    store = await checkpointed()
    store.dies_at = dies_at
    with pytest.raises(Crash):
        await write(store, NEW, checksums(OLD), marker(20, NEW))
    found = read_marker(store)
    assert found is not None
    assert found.next_offset == 10
    untouched = dies_at == 1
    assert read_rows(store, found) == ({"chat": OLD} if untouched else None)


async def test_s3_the_marker_alone_proves_nothing() -> None:
    """A changelog topic that is behind the marker's: Faust's tables have one each."""
    store = await checkpointed()
    await write(store, NEW, checksums(OLD), marker(20, NEW))
    store.rows["pools/chat"] = b"old pool"
    found = read_marker(store)
    assert found is not None
    assert read_rows(store, found) is None
    del store.rows["pools/chat"]
    assert read_rows(store, found) is None


async def test_s3_rows_that_no_pool_has_any_more_are_passed_over() -> None:
    store = await checkpointed()
    store.rows["pools/chat/gw-9"] = b"of a worker that had lost the partition"
    found = read_marker(store)
    assert found is not None
    assert read_rows(store, found) == {"chat": OLD}


def test_s3_a_partition_without_a_marker_has_none() -> None:
    assert read_marker(Rows()) is None


def test_the_marker_is_no_row_of_any_pool() -> None:
    assert "/" not in MARKER


def test_a_marker_survives_encode_and_decode() -> None:
    assert decode_marker(encode_marker(marker(20, NEW))) == marker(20, NEW)
