"""Snapshots and breaks in the journal: what a partition is restored from when its rows do not fit.

A snapshot holds all rows of one pool at a boundary, in chunks that fit Kafka's message size; it
counts when its last chunk and all chunks before it are there (S3).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tokenweir.records.journal import Break, JournalEntry, SnapshotChunk

CHUNK_BYTES = 700_000
SNAPSHOT_MS = 60_000  # of pool time


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole state of a pool before the message at `next_offset` was folded."""

    pool: str
    at_ms: int
    next_offset: int
    arithmetic: int
    rows: Mapping[str, bytes]


def is_due(before_ms: int, at_ms: int) -> bool:
    """Whether the boundary at `at_ms` is the first of its minute, after the one at `before_ms`."""
    return at_ms // SNAPSHOT_MS > before_ms // SNAPSHOT_MS


def snapshot_entries(snapshot: Snapshot) -> Iterator[JournalEntry]:
    """The journal entries of a snapshot, ids `pool@at_ms/snapshot/chunk`."""
    chunks = list(_split(snapshot.rows))
    for number, keys in enumerate(chunks):
        yield JournalEntry(
            pool=snapshot.pool,
            at_ms=snapshot.at_ms,
            id=f"{snapshot.pool}@{snapshot.at_ms}/snapshot/{number}",
            body=SnapshotChunk(
                next_offset=snapshot.next_offset,
                chunk=number,
                last=number == len(chunks) - 1,
                arithmetic=snapshot.arithmetic,
                keys=keys,
                rows=[snapshot.rows[key] for key in keys],
            ),
        )


def break_entry(pool: str, at_ms: int, why: str, next_offset: int, arithmetic: int) -> JournalEntry:
    """A break: replay does not cross it (S5)."""
    return JournalEntry(
        pool, at_ms, f"{pool}@{at_ms}/break/{next_offset}", Break(why, next_offset, arithmetic)
    )


def newest_snapshots(entries: Iterable[JournalEntry]) -> dict[str, Snapshot]:
    """Each pool's newest complete snapshot among the entries, whatever their order."""
    chunks: dict[tuple[str, int, int], dict[int, SnapshotChunk]] = {}
    for entry in entries:
        if isinstance(entry.body, SnapshotChunk):
            at = (entry.pool, entry.at_ms, entry.body.next_offset)
            chunks.setdefault(at, {})[entry.body.chunk] = entry.body
    newest: dict[str, Snapshot] = {}
    for (pool, at_ms, next_offset), parts in sorted(chunks.items()):
        if _complete(parts):
            newest[pool] = Snapshot(pool, at_ms, next_offset, parts[0].arithmetic, _joined(parts))
    return newest


def _split(rows: Mapping[str, bytes]) -> Iterator[list[str]]:
    """Lists of keys whose rows fit one chunk; a larger row has a chunk of its own."""
    keys: list[str] = []
    size = 0
    for key, row in rows.items():
        if keys and size + len(key) + len(row) > CHUNK_BYTES:
            yield keys
            keys, size = [], 0
        keys.append(key)
        size += len(key) + len(row)
    yield keys


def _joined(parts: Mapping[int, SnapshotChunk]) -> dict[str, bytes]:
    rows: dict[str, bytes] = {}
    for part in parts.values():
        rows.update(zip(part.keys, part.rows, strict=True))
    return rows


def _complete(parts: Mapping[int, SnapshotChunk]) -> bool:
    return 0 in parts and any(
        part.last and all(number in parts for number in range(number_of_last))
        for number_of_last, part in parts.items()
    )
