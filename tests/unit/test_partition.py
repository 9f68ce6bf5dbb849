"""The state of a partition: what goes in, what comes out, and where it goes on."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.checkpoint import Marker, checksums
from streams.partition import Outgoing, Partition, Place, Restored, Unfoldable
from streams.restore import from_rows, from_snapshots
from tests.chained import BREAKS_THE_CORE, CHAINED, Chained
from tests.pools import START, report, spec, tenant
from tokenweir.records.journal import Break, DeadLetter, JournalEntry, SnapshotChunk
from tokenweir.snapshots import newest_snapshots
from tokenweir.topics import Topics, partition_of
from tokenweir.usage_log import Message
from tokenweir.wire import decode, encode

TOPICS = Topics()
HOME = partition_of("chat", 4)  # chat and plan share it
PLACE = Place(TOPICS, HOME, 4)
POOLS = ("chat", "plan")
SECOND = 1000


class Tables:
    """Rows in memory."""

    def __init__(self, rows: dict[str, bytes]) -> None:
        self.rows = rows

    def get(self, key: str) -> bytes | None:
        return self.rows.get(key)

    def put(self, key: str, row: bytes) -> None:
        self.rows[key] = row

    def delete(self, key: str) -> None:
        del self.rows[key]

    async def settle(self) -> None:
        pass


def fresh(unfoldable: dict[int, str] | None = None) -> Partition[Chained]:
    return Partition(CHAINED, PLACE, Restored(), unfoldable or {})


def message(offset: int, record: object, append_ms: int, key: bytes | None = None) -> Message:
    pool: str = getattr(record, "pool", "chat")
    return Message(offset, append_ms, pool.encode() if key is None else key, encode(record))


def a_log(seconds: int = 8) -> list[Message]:
    """Two pools: a spec each, then a report of each every half second."""
    records: list[tuple[object, int]] = [
        (spec(tenant("gold", "guaranteed", 5_000), pool=pool), START + 100) for pool in POOLS
    ]
    for number in range(1, 2 * seconds):
        for pool in POOLS:
            used = report("gw", number, {"gold": 100}, pool=pool)
            records.append((used, START + 100 + number * SECOND // 2))
    return [message(offset, *record) for offset, record in enumerate(records)]


def entries(out: list[Outgoing]) -> list[JournalEntry]:
    return [decode(one.value) for one in out if one.topic == TOPICS.journal]


def letters(out: list[Outgoing]) -> list[DeadLetter]:
    return [decode(one.value) for one in out if one.topic == TOPICS.dead_letter]


def content(state: Partition[Chained]) -> dict[str, dict[str, bytes]]:
    return {name: CHAINED.to_rows(pool) for name, pool in sorted(state.pools.items())}


def run(state: Partition[Chained], log: list[Message]) -> list[Outgoing]:
    return [one for item in log if item.offset >= state.next_offset for one in state.take(item)]


def test_leases_and_roster_come_before_the_decision_that_needs_them() -> None:
    out = run(fresh(), a_log())
    control = [one.key.decode() for one in out if one.topic == TOPICS.control and one.key]
    decision = control.index("chat", control.index("chat/gw/0"))
    assert control.index("chat/roster") < decision
    assert control.index("chat/gw/0") < decision


def test_s3_the_first_decision_has_a_snapshot_of_the_state_before_its_message() -> None:
    log = a_log()
    out = run(fresh(), log)
    snapshot = newest_snapshots(entries(out))["chat"]
    upto = fresh()
    run(upto, log[: snapshot.next_offset])
    CHAINED.advance(upto.pools["chat"], log[snapshot.next_offset].append_ms)
    assert CHAINED.to_rows(upto.pools["chat"]) == snapshot.rows


@settings(max_examples=12, deadline=None)
@given(st.integers(min_value=0, max_value=31))
def test_s2_a_run_cut_by_a_checkpoint_equals_one_run(cut: int) -> None:
    log = a_log()
    whole, first = fresh(), fresh()
    published = run(whole, log)
    before = run(first, log[:cut])
    rows = {key: row for pool in first.pools.values() for key, row in CHAINED.to_rows(pool).items()}
    marker = first.marker(first.changed_rows())
    assert {key for sums in marker.pools.values() for key in sums} == set(rows)
    restored = from_rows(CHAINED, marker, Tables(rows))
    assert restored is not None
    second = Partition(CHAINED, PLACE, restored, {})
    after = run(second, log)
    assert content(second) == content(whole)
    assert before + after == published


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_s3_from_snapshots_at_different_offsets_each_pool_goes_on_where_its_own_stands(
    data: st.DataObject,
) -> None:
    """S6 too: what is published again has the same bytes."""
    log = a_log(70)
    whole = fresh()
    published = run(whole, log)
    known = {}
    for pool in POOLS:
        mine = [entry for entry in entries(published) if entry.pool == pool]
        seen = data.draw(st.integers(min_value=0, max_value=len(mine)))
        known.update(newest_snapshots(mine[:seen]))
    marker = data.draw(st.sampled_from([None, Marker(40, 1, {pool: {"x": "y"} for pool in POOLS})]))
    restored = from_snapshots(CHAINED, known, marker, first=0)
    state = Partition(CHAINED, PLACE, restored, {})
    again = run(state, log)
    assert content(state) == content(whole)
    assert set(again) <= set(published)


def test_s3_no_checkpoint_while_one_pool_is_ahead_of_the_other() -> None:
    log = a_log()
    out = run(fresh(), log)
    known = newest_snapshots(entry for entry in entries(out) if entry.pool == "chat")
    state = Partition(CHAINED, PLACE, from_snapshots(CHAINED, known, None, 0), {})
    assert not state.is_even()
    run(state, log[: known["chat"].next_offset])
    assert state.is_even()


def test_s3_rows_that_this_version_cannot_read_are_not_used() -> None:
    rows = {"pools/chat": b"of a newer version", "debt/chat/chain": b"1 x"}
    marker = Marker(5, 1, {"chat": checksums(rows)})
    assert from_rows(CHAINED, marker, Tables(rows)) is None


def test_s5_another_arithmetic_is_a_break_and_a_snapshot() -> None:
    state = fresh()
    run(state, a_log())
    rows = state.changed_rows()
    old = Marker(state.next_offset, 99, state.marker(rows).pools)
    restored = from_rows(CHAINED, old, Tables(rows))
    assert restored is not None
    after = Partition(CHAINED, PLACE, restored, {})
    found = entries(after.breaks(restored.why_break))
    assert [entry.pool for entry in found if isinstance(entry.body, Break)] == ["chat", "plan"]
    assert newest_snapshots(found)["chat"].next_offset == state.next_offset


def test_s5_a_pool_that_is_met_in_a_log_without_its_beginning_has_a_break() -> None:
    state = Partition(CHAINED, PLACE, from_snapshots(CHAINED, {}, None, first=7), {})
    [entry] = entries(state.take(message(7, report("gw", 1), START)))
    assert isinstance(entry.body, Break)
    assert entry.body.why == "the log starts at 7: what was before is not known"


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (b"chat", None, "the value is null"),
        (b"chat", b"noise", "marker C3 01 is missing"),
        (b"chat", b"\xc3\x01" + b"\x07" * 8, "unknown schema 0707070707070707"),
        (b"code", encode(report("gw", 1)), "the key b'code' is not the record's pool 'chat'"),
        (None, encode(report("gw", 1)), "the key None is not the record's pool 'chat'"),
        (b"a/b", encode(report("gw", 1, pool="a/b")), "has a slash"),
        (b"code", encode(report("gw", 1, pool="code")), "expected 1: produce with Kafka's default"),
    ],
)
def test_59_a_record_that_cannot_be_used_is_a_dead_letter_with_its_place(
    key: bytes | None, value: bytes | None, reason: str
) -> None:
    state = fresh()
    [letter] = letters(state.take(Message(0, START, key, value)))
    assert reason in letter.reason
    assert (letter.topic, letter.partition, letter.offset) == (TOPICS.usage, HOME, 0)
    assert (letter.key, letter.value, letter.timestamp_ms) == (key, value, START)
    assert state.next_offset == 1


def test_what_belongs_in_another_topic_is_a_dead_letter() -> None:
    state = fresh()
    [letter, *_] = letters(state.take(message(0, entries(run(fresh(), a_log()))[0], START)))
    assert "a JournalEntry does not belong in the usage topic" in letter.reason


def test_a_record_that_breaks_the_core_is_passed_over_in_a_state_loaded_again() -> None:
    log = [*a_log(), message(32, report(BREAKS_THE_CORE, 1), START + 9_000)]
    state = fresh()
    with pytest.raises(Unfoldable) as failed:
        run(state, log)
    assert (failed.value.offset, failed.value.reason) == (32, "ZeroDivisionError: made to fail")
    out = run(fresh({32: failed.value.reason}), log)
    assert [letter.offset for letter in letters(out)] == [32]


def test_t1_s2_a_checkpoint_is_due_at_each_multiple_of_five_seconds_of_log_time() -> None:
    r"""Time:    4.9 s   5.1 s   4.0 s (a leader changed)   9.9 s   10.0 s
    Due:                 x                                  -       x
    """  # fmt: skip
    state = fresh()
    due = []
    for offset, at_ms in enumerate((4_900, 5_100, 4_000, 9_900, 10_000)):
        state.take(message(offset, report("gw", offset + 1), START + at_ms))
        due.append(state.is_checkpoint_due())
        if due[-1]:
            state.checkpointed(state.marker(state.changed_rows()))
    assert due == [False, True, False, False, True]


def test_snapshots_fit_kafkas_messages() -> None:
    out = run(fresh(), a_log(70))
    chunks = [entry for entry in entries(out) if isinstance(entry.body, SnapshotChunk)]
    assert len(chunks) >= 4
    assert all(len(encode(chunk)) < 1_000_000 for chunk in chunks)
