"""Dead letters that are sent again: each counts once, and only what can."""

from dataclasses import replace
from typing import Any

import pytest

from tests.pools import START, pool_with, report, spec, step, tenant
from tokenweir.cli.dead_letters.explain import advice
from tokenweir.core.pool import COUNTERS, GAUGES, Pool
from tokenweir.core.step import advance, fold
from tokenweir.errors import BadRecord, UnknownSchema
from tokenweir.history.sequences import Sequences
from tokenweir.letters.again import Again, Terms, again, gateway_of
from tokenweir.letters.found import Letter
from tokenweir.records.event import Event
from tokenweir.records.journal import DeadLetter
from tokenweir.records.usage import CapacityReport, UsageReport
from tokenweir.topics import Topics, partition_of, partition_of_key
from tokenweir.wire import decode, encode

TOPICS = Topics()
TERMS = Terms(TOPICS, 8)
HOME = partition_of("chat", 8)
HOUR_MS = 3_600_000
OUT = COUNTERS.index("tokens_out")


def letter(
    value: bytes | None,
    *,
    topic: str = TOPICS.usage,
    key: bytes = b"chat",
    partition: int = HOME,
    reader: str = "control",
) -> DeadLetter:
    return DeadLetter(topic, partition, 7, START, key, value, "why", reader)


def letter_of(record: object, **how: Any) -> DeadLetter:
    return letter(encode(record), **how)


def sent(record: object, now_ms: int = START + 10_000, **how: Any) -> tuple[Again, Any]:
    found = again(letter_of(record, **how), TERMS, now_ms)
    return found, decode(found.value)


def refused(one: DeadLetter, terms: Terms = TERMS) -> str:
    with pytest.raises(BadRecord) as caught:
        again(one, terms, START + 10_000)
    return str(caught.value)


def out_tokens(pool: Pool) -> int:
    return int(pool.totals[:, OUT].sum())


def ahead() -> UsageReport:
    """A report that obeys a decision which nobody has taken."""
    busy = report("gw-1", 3, {"acme": 40}, sequences={"acme": 2}, applied=START + HOUR_MS)
    return replace(busy, age_ms=20)


def test_a_report_goes_under_a_gateway_of_its_own_with_a_grown_age() -> None:
    found, record = sent(ahead())
    assert (found.topic, found.partition, found.key) == (TOPICS.usage, HOME, b"chat")
    assert record.gateway == "resend-gw-1-3"
    assert (record.sequence, record.applied, record.closing) == (1, 0, True)
    assert record.age_ms == 20 + 10_000
    assert all(list(getattr(record.totals, name)) == [] for name in GAUGES)
    assert list(record.totals.tokens_out) == [40]
    assert found.how == f"as gateway {record.gateway}"


def test_it_counts_once_however_often_it_is_sent() -> None:
    pool = pool_with(spec(tenant("acme", "elastic", 1000)))
    with pytest.raises(BadRecord, match="applied is"):
        fold(pool, ahead(), START)
    assert out_tokens(pool) == 0
    for at_ms in (START + 10_000, START + 10_100, START + 23 * HOUR_MS):
        _, record = sent(ahead(), at_ms)
        step(pool, record, at_ms)
    assert out_tokens(pool) == 40


def test_a_report_that_came_twice_counts_once() -> None:
    # R1: a gateway sends a report of unknown fate again, with another age; both were refused.
    pool = pool_with(spec(tenant("acme", "elastic", 1000)))
    for place, age_ms in ((7, 20), (9, 5000)):
        one = replace(letter_of(replace(ahead(), age_ms=age_ms)), offset=place)
        step(pool, decode(again(one, TERMS, START + 10_000).value), START + 10_000)
    assert out_tokens(pool) == 40


def test_reports_that_do_not_say_which_they_are_go_by_their_places() -> None:
    first = letter_of(replace(ahead(), sequence=0))
    second = replace(first, offset=8)
    ids = [gateway_of(one, decode(one.value)) for one in (first, second)]
    assert ids == [f"resend-{HOME}-7-{START}", f"resend-{HOME}-8-{START}"]


def test_its_gateway_gets_no_lease_and_is_gone_after_the_decision() -> None:
    pool = pool_with(spec(tenant("acme", "elastic", 1000)))
    _, record = sent(ahead())
    step(pool, record, START + 10_000)
    decided = advance(pool, START + 12_000)
    assert decided is not None
    assert decided.leases == ()
    assert [name for name, _ in decided.gone] == [record.gateway]
    assert pool.gateways == {}


def test_the_history_drops_a_second_one_as_well() -> None:
    history, (_, record) = Sequences(), sent(ahead())
    taken = [history.take("chat", record.gateway, record.sequence, START + n) for n in (0, 500)]
    assert taken == [0, None]


def test_what_happened_stays_at_its_time() -> None:
    # Cut at START - 20 with rows 300 ms older: the event time is the same after an hour.
    first = report("gw-1", 1, {"acme": 5}, row_age_ms=300, age_ms=20)
    found, record = sent(first, START + HOUR_MS, key=b"wrong")
    assert START + HOUR_MS - record.age_ms - record.totals.age_ms[0] == START - 320
    assert found.key == b"chat"


def test_a_report_in_a_wrong_place_goes_home() -> None:
    found, _ = sent(report("gw-1", 1, {"acme": 5}), partition=(HOME + 1) % 8, key=b"acme")
    assert (found.partition, found.key) == (HOME, b"chat")


def test_requests_that_the_history_has_are_not_sent_again() -> None:
    # Refused by the control plane, for a boundary that is not decided yet; the history, which
    # reads the log by itself, only knows that this time has come.
    block = b"requests"
    early = replace(report("gw-1", 1, {"acme": 5}, applied=START), requests=block)
    found, record = sent(early)
    assert record.requests == b""
    assert found.how.endswith(", totals only")
    _, record = sent(replace(early, applied=START + HOUR_MS))
    assert record.requests == block


def test_a_report_older_than_a_week_is_refused() -> None:
    assert again(letter_of(ahead()), TERMS, START + 167 * HOUR_MS)
    with pytest.raises(BadRecord, match="more than a week old"):
        again(letter_of(ahead()), TERMS, START + 168 * HOUR_MS)


def test_what_can_still_not_be_used_is_refused_with_the_reason() -> None:
    one = report("gw-1", 1, {"acme": 5})
    torn = replace(one, totals=replace(one.totals, tokens_out=[1, 2, 3]))
    assert "totals.tokens_out has 3 rows" in refused(letter_of(torn))
    much = replace(one, totals=replace(one.totals, tokens_out=[10**10]))
    assert "totals.tokens_out has 10000000000" in refused(letter_of(much))
    assert "has a slash" in refused(letter_of(replace(one, pool="a/b")))
    assert "does not belong in the usage topic" in refused(
        letter_of(letter(b""))  # a letter in the usage topic
    )
    assert "the marker C3 01 is missing" in refused(letter(b"no record"))
    assert "cannot be read as UsageReport" in refused(letter(encode(one)[:30]))
    assert "its value is null" in refused(letter(None))
    with pytest.raises(UnknownSchema):
        again(letter(b"\xc3\x01" + b"12345678"), TERMS, START)


def test_what_was_counted_or_is_written_anew_is_refused() -> None:
    one = report("gw-1", 1, {"acme": 5})
    assert "the control plane has counted it" in refused(letter_of(one, reader="history"))
    assert "newer ones by now" in refused(letter_of(one, topic=TOPICS.control, reader="gw-1"))
    assert "newer ones by now" in refused(letter_of(one, topic=TOPICS.journal, reader="history"))
    assert "is not one of this deployment" in refused(letter_of(one, topic="t1-tokenweir.usage.v1"))


def test_settings_go_as_they_are_and_only_when_asked_for() -> None:
    capacity = CapacityReport("chat", "cli", 5_000_000, None, None)
    assert "--include-settings sends it as it is" in refused(letter_of(capacity))
    found = again(letter_of(capacity, key=b"acme"), replace(TERMS, settings=True), START)
    assert (decode(found.value), found.key, found.how) == (capacity, b"chat", "unchanged")
    rules = spec(tenant("acme", "elastic"), version=9)
    found = again(letter_of(rules), replace(TERMS, settings=True), START)
    assert found.value == encode(rules)
    many = replace(capacity, tokens_per_s=-1)
    assert "tokens_per_s is -1" in refused(letter_of(many), replace(TERMS, settings=True))


def test_an_event_goes_under_its_own_id_with_its_own_time() -> None:
    value = b'{"pool":"chat","tenant":"acme","request_id":"r1","id":"e1","age_ms":400}'
    found = again(letter(value, topic=TOPICS.events, key=b"r1", reader="events"), TERMS, START + 9)
    event = decode(found.value)
    assert isinstance(event, Event)
    assert (event.id, event.age_ms, event.time_ms) == ("e1", None, START - 400)
    assert (found.topic, found.key) == (TOPICS.events, b"r1")
    assert found.partition == partition_of_key(b"r1", 8)
    bad = letter(b'{"pool":"chat"}', topic=TOPICS.events, reader="events")
    assert "tenant is missing" in refused(bad)
    assert "a tick" in refused(letter(b'{"tick":true}', topic=TOPICS.events, reader="events"))


def test_advice_says_what_to_do_now() -> None:
    def now(one: DeadLetter, resent: str = "") -> str:
        return advice(Letter(one, HOME, START, resent), TERMS, START + 10_000)

    place = f"{TOPICS.usage}/{HOME}/7"
    resend = f"`tokenweir dead-letters resend {place}` sends it as gateway resend-gw-1-3"
    assert now(letter_of(ahead())) == resend
    assert now(letter_of(ahead()), "as gateway x").startswith("nothing: it was sent again as")
    counted = letter_of(ahead(), reader="history")
    assert now(counted).startswith("nothing: the control plane has counted it")
    assert now(letter(b"\xc3\x01" + b"12345678")).endswith("upgrade here, then send it again")
    assert "who wrote it has to mend it" in now(letter(b"hello"))
