"""Reports by half intervals of the log, and what a partition stores of itself (R1, T5).

events    e1 e2        e3                     e4
log       |------------|------------|---------|-----
cuts                   e1 e2        e3                (at the first message past each half)
"""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from streams.checkpoint import Marker, encode_marker
from streams.events_partition import EventsPartition, OutgoingReport, find, gathering
from streams.partition import Outgoing, Place
from tests.unit.events.made import AT, Log, content, used
from tokenweir.core.pool import COUNTERS, new_pool
from tokenweir.core.step import advance, fold
from tokenweir.events.gather import QUIET_MS, Gathering, event_ms
from tokenweir.events.read import TICK, read
from tokenweir.events.rows import changed_rows, from_rows, stored
from tokenweir.history.balance import balance
from tokenweir.history.checks import check_report
from tokenweir.history.increments import requests_of
from tokenweir.records.journal import DeadLetter
from tokenweir.topics import Topics, partition_of, partition_of_key
from tokenweir.usage_log import Message
from tokenweir.wire import decode


def test_a_tick_closes_what_came_before_it() -> None:
    log = Log()
    log.send(usage=used(10, 0))
    [cut] = log.tick(200)
    assert cut.report.gateway == "events-0"
    assert cut.report.closing
    assert (cut.report.sequence, list(cut.report.totals.tokens_uncached)) == (1, [10])
    assert list(cut.report.totals.age_ms) == [200]


def test_time_goes_on_without_ticks_while_events_come() -> None:
    log = Log()
    for number in range(10):
        log.send(100, request_id=f"r{number}", usage=used(1, 0))
    assert [len(cut.report.totals.tenant) for cut in log.cuts if cut.rows] == [1, 1]
    assert [cut.rows for cut in log.cuts if cut.rows] == [4, 5]


def test_a_pool_without_events_is_reported_empty_until_it_is_quiet() -> None:
    log = Log()
    log.send(usage=used(10, 0))
    log.tick()
    [empty] = log.tick()
    assert empty.report.sequence == 2
    assert not empty.report.requests
    log.tick(QUIET_MS)
    assert log.tick() == []


def test_sequences_go_on_when_a_pool_comes_back() -> None:
    log = Log()
    log.send(usage=used(10, 0))
    log.tick()
    log.tick(QUIET_MS + 1)
    log.send(request_id="r2", usage=used(10, 0))
    [cut] = log.tick()
    assert cut.report.sequence == 2


def test_each_pool_has_its_own_sequences() -> None:
    log = Log()
    log.send(pool="chat")
    log.send(pool="code")
    assert [(cut.report.pool, cut.report.sequence) for cut in log.tick()] == [
        ("chat", 1),
        ("code", 1),
    ]


def test_a_report_covers_a_second_so_that_old_usage_lies_where_it_happened() -> None:
    """Three seconds, and a minute for two that are older than any window."""
    log = Log(now_ms=AT + 900)
    for number, age_ms in enumerate((0, 1_500, 2_500, 200_000, 201_000)):
        log.send(request_id=f"r{number}", usage=used(10, 0), age_ms=age_ms)
    cuts = log.tick(60)
    assert [cut.rows for cut in cuts] == [2, 1, 1, 1]
    assert [cut.report.sequence for cut in cuts] == [1, 2, 3, 4]


def test_a_report_says_no_more_than_the_control_plane_believes() -> None:
    log = Log()
    for number in range(25):
        log.send(request_id=f"r{number}", usage=used(10**8, 0))
    pool = new_pool("chat")
    for cut in log.tick():
        advance(pool, cut.cut_ms)
        fold(pool, cut.report, cut.cut_ms)
    place = COUNTERS.index("tokens_uncached")
    assert pool.totals[:, place].sum() == 25 * 10**8


def test_rows_add_up_to_totals_in_every_report() -> None:
    log = Log()
    for number in range(200):
        status = ("part", "done", "cancelled", "refused", "expired")[number % 5]
        log.send(
            7, request_id=f"r{number % 60}", status=status, usage=used(number, number),
            tenant=f"t{number % 3}", refused_tokens=3,
        )  # fmt: skip
    log.tick()
    for cut in log.cuts:
        if cut.report.requests:
            check_report(cut.report, cut.cut_ms)
            assert balance(cut.report.totals, requests_of(cut.report))


class Store(dict[str, bytes]):
    """A table of one partition, in memory."""

    put = dict.__setitem__

    def delete(self, key: str) -> None:
        del self[key]

    async def settle(self) -> None:
        pass


PLACE = Place(Topics(), 3, 8)
# A key whose partition this is.
HERE = next(key for key in map(b"%d".__mod__, range(99)) if partition_of_key(key, 8) == 3)


def partition(store: Store) -> EventsPartition:
    """The partition as its newest checkpoint has it."""
    found = find(store)
    if found is None:
        return EventsPartition(PLACE, Gathering("events-3"), 0, {}, {})
    state = gathering(found)
    assert state is not None
    return EventsPartition(PLACE, state, found.marker.next_offset, found.marker.pools["events"], {})


def message(offset: int, value: bytes) -> Message:
    return Message(offset, AT + 40 * offset, HERE, value)


def bytes_of(out: list[Outgoing]) -> list[object]:
    return [o.cut.report if isinstance(o, OutgoingReport) and o.cut else o.value for o in out]


values = st.one_of(
    st.just(TICK),
    st.just(b"poison"),
    st.builds(
        lambda request, status, out, id: json.dumps(
            content(request_id=request, status=status, usage=used(5, out), id=id)
        ).encode(),
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from(["part", "done", "cancelled"]),
        st.sampled_from([None, 0, 5, 90]),
        st.sampled_from(["", "1", "2", "3"]),
    ),
)


@given(st.lists(values, min_size=1, max_size=40), st.data())
@settings(max_examples=60, deadline=None)
def test_a_run_that_is_broken_off_says_the_same_as_one_that_is_not(
    log: list[bytes], data: st.DataObject
) -> None:
    """Crashes at any message: after a checkpoint, before one, or in the middle of one (S2, S3)."""
    whole = partition(Store())
    expected = [bytes_of(whole.take(message(at, value))) for at, value in enumerate(log)]
    store = Store()
    state = partition(store)
    while state.next_offset < len(log):
        offset = state.next_offset
        assert bytes_of(state.take(message(offset, log[offset]))) == expected[offset]
        match data.draw(st.sampled_from(["go on", "checkpoint", "half a checkpoint", "crash"])):
            case "checkpoint":
                rows = state.changed_rows()
                marker = state.marker(rows)
                store.update(rows, pools=encode_marker(marker))
                state.checkpointed(marker)
            case "half a checkpoint":
                rows = state.changed_rows()
                store.update(list(rows.items())[: data.draw(st.integers(0, len(rows)))])
                state = partition(store)
            case "crash" if find(store) is not None:
                state = partition(store)
    assert changed_state(state.state) == changed_state(whole.state)


def changed_state(state: Gathering) -> tuple[object, ...]:
    return state.pools, state.counts, state.memory.known, state.memory.open, state.cut_ms


def test_a_state_is_the_same_after_it_was_stored() -> None:
    log = Log()
    for number in range(50):
        log.send(200, request_id=f"r{number}", id=f"e{number}", usage=used(number, None))
    rows = changed_rows(log.state)
    assert changed_state(from_rows(rows)) == changed_state(log.state)
    stored(log.state)
    assert list(changed_rows(log.state)) == ["pools"]
    assert changed_rows(from_rows(rows))["pools"] == rows["pools"]


def test_rows_that_are_lost_cost_the_memory_and_not_the_sequences() -> None:
    state = partition(Store())
    state.take(message(0, json.dumps(content(usage=used(1, 1))).encode()))
    state.take(message(20, TICK))
    rows = state.changed_rows()
    store = Store(rows, pools=encode_marker(state.marker(rows)))
    del store["seen/seen-01/1"]
    found = find(store)
    assert found is not None
    assert found.damaged == ["seen/seen-01/1"]
    restored = gathering(found)
    assert restored is not None
    assert restored.pools["chat"].sequence == 1
    del store["pools/pools/1"]
    found = find(store)
    assert found is not None
    assert gathering(found) is None


def test_rows_of_another_form_are_not_read() -> None:
    assert find(Store(pools=encode_marker(Marker(5, 2, {"events": {}})))) is None
    assert find(Store()) is None


def test_59_poison_becomes_a_dead_letter_and_the_rest_goes_on() -> None:
    state = partition(Store())
    letters = []
    for offset in range(100):
        value = b"\x00noise" if offset == 41 else json.dumps(
            content(request_id=str(offset), usage=used(1, 0))
        ).encode()  # fmt: skip
        letters += [
            o for o in state.take(message(offset, value)) if o.topic != "tokenweir.usage.v1"
        ]
    [letter] = [decode(out.value) for out in letters]
    assert isinstance(letter, DeadLetter)
    assert (letter.topic, letter.partition, letter.offset) == ("tokenweir.events.v1", 3, 41)
    assert (letter.reader, letter.value) == ("events", b"\x00noise")
    assert state.state.counts == {
        "taken": 99, "total_differs": 0, "estimated": 0, "dead_letter": 1
    }  # fmt: skip


def test_67_reports_go_to_the_pools_partition_wherever_the_event_came_from() -> None:
    state = partition(Store())
    state.take(message(0, json.dumps(content()).encode()))
    [report] = state.take(message(20, TICK))
    assert isinstance(report, OutgoingReport)
    assert report.partition == partition_of("chat", 8) != PLACE.partition
    assert (report.topic, report.key) == ("tokenweir.usage.v1", b"chat")


def test_67_an_event_on_another_partition_than_its_keys_goes_there_with_its_time() -> None:
    state, value = partition(Store()), json.dumps(content(age_ms=70, usage=used(1, 1))).encode()
    [forwarded] = state.take(Message(0, AT, b"chat", value))
    assert (forwarded.topic, forwarded.key) == ("tokenweir.events.v1", b"chat")
    assert forwarded.partition == partition_of("chat", 8)
    heard = read(forwarded.value)
    assert heard is not None
    assert event_ms(heard.event, AT + 500) == AT - 70
    assert state.state.counts == {"forwarded": 1, "total_differs": 0}


def test_19_events_without_a_key_meet_in_one_partition() -> None:
    value = json.dumps(content(id="e1", usage=used(1, 1))).encode()
    homes = set()
    for number in range(8):
        state = EventsPartition(Place(Topics(), number, 8), Gathering("events"), 0, {}, {})
        out = state.take(Message(0, AT, None, value))
        homes |= {each.partition for each in out} or {number}
    assert len(homes) == 1
