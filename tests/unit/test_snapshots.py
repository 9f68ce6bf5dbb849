"""S3: a snapshot counts when all of its chunks are there."""

from tokenweir.records.journal import JournalEntry, SnapshotChunk
from tokenweir.snapshots import (
    CHUNK_BYTES,
    Snapshot,
    break_entry,
    is_due,
    newest_snapshots,
    snapshot_entries,
)

ROW = bytes(CHUNK_BYTES // 2 - 100)


def entries(at_ms: int, next_offset: int, count: int = 5) -> list[JournalEntry]:
    rows = {f"pools/chat/{number}": ROW + bytes([number]) for number in range(count)}
    return list(snapshot_entries(Snapshot("chat", at_ms, next_offset, 1, rows)))


def test_s3_a_snapshot_in_chunks_comes_back_whole() -> None:
    chunks = entries(60_000, 7)
    assert [chunk.id for chunk in chunks] == [f"chat@60000/snapshot/{n}" for n in range(3)]
    [snapshot] = newest_snapshots(chunks).values()
    assert (snapshot.at_ms, snapshot.next_offset, len(snapshot.rows)) == (60_000, 7, 5)


def test_s3_no_chunk_is_larger_than_a_message_may_be() -> None:
    for entry in entries(60_000, 7):
        assert isinstance(entry.body, SnapshotChunk)
        assert sum(len(row) for row in entry.body.rows) <= CHUNK_BYTES


def test_s3_a_snapshot_that_lacks_a_chunk_does_not_count() -> None:
    old, new = entries(60_000, 7), entries(120_000, 99)
    for missing in range(3):
        partial = [chunk for number, chunk in enumerate(new) if number != missing]
        assert newest_snapshots(old + partial)["chat"].at_ms == 60_000


def test_s3_the_newest_counts_and_chunks_written_again_do_no_harm() -> None:
    old, new = entries(60_000, 7), entries(120_000, 99)
    assert newest_snapshots(old + new + old + new[:1])["chat"].next_offset == 99


def test_a_pool_without_rows_has_a_snapshot_too() -> None:
    assert newest_snapshots(entries(60_000, 7, count=0))["chat"].rows == {}


def test_other_entries_are_passed_over() -> None:
    assert newest_snapshots([break_entry("chat", 1, "why", 5, 1)]) == {}


def test_s3_the_first_boundary_of_each_minute_of_pool_time_has_a_snapshot() -> None:
    """before: 0 (no decision yet), 59 s, 60 s, 61 s; a minute that was skipped counts once."""
    assert is_due(0, 1_800_000_007_000)
    assert is_due(59_000, 60_000)
    assert not is_due(60_000, 61_000)
    assert is_due(61_000, 190_000)
