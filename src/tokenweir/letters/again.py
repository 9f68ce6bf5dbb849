"""What is sent for a dead letter that can be used after all, or why nothing can.

A report goes under a gateway id that is made of the one and the sequence that it had, with sequence
1 (R1): so a second one of the same letter, or of a letter on the same report sent twice, is dropped
as a repeat, by the control plane and by the history, for the 24 h of pool time that a gateway's
last sequence is kept. It says `closing`: it holds no lease.
"""

from dataclasses import dataclass, replace

from tokenweir.core.fold import MOST_AGE_MS
from tokenweir.core.pool import GAUGES, new_pool
from tokenweir.core.step import advance, fold
from tokenweir.errors import BadRecord
from tokenweir.events.count import request_key
from tokenweir.events.gather import event_ms
from tokenweir.events.read import read
from tokenweir.history.checks import check_report
from tokenweir.history.letters import READER as HISTORY
from tokenweir.records.journal import DeadLetter
from tokenweir.records.usage import UsageReport
from tokenweir.topics import Topics, partition_of, partition_of_key, pool_key
from tokenweir.usage_log import USAGE_KINDS, Message, read_usage
from tokenweir.wire import decode, encode

NO_GAUGES = dict.fromkeys(GAUGES, ())


class Settled(BadRecord):
    """The record is not wanted any more: nothing has to be done about its letter."""


@dataclass(frozen=True, slots=True)
class Again:
    """A record to produce, and in words what it is."""

    topic: str
    partition: int
    key: bytes
    value: bytes
    how: str


@dataclass(frozen=True, slots=True)
class Terms:
    """Where letters go, and whether specs and capacities go too: they may be out of date."""

    topics: Topics
    partitions: int
    settings: bool = False


def again(letter: DeadLetter, terms: Terms, now_ms: int) -> Again:
    """What to produce for the letter; raises `BadRecord` that says why nothing is.

    `now_ms` is wall time: ages grow by what has passed since the record's append (T5).
    """
    _check_source(letter, terms.topics)
    if letter.topic == terms.topics.events:
        return _event(letter, terms)
    record = decode(letter.value)
    if isinstance(record, UsageReport):
        return _report(letter, record, terms, now_ms)
    if isinstance(record, USAGE_KINDS) and not terms.settings:
        kind = type(record).__name__
        raise Settled(f"a {kind}: it may be out of date; --include-settings sends it as it is")
    return _usage(letter, record, letter.value or b"", terms, now_ms, "unchanged")


def gateway_of(letter: DeadLetter, report: UsageReport) -> str:
    """The gateway id of a report that is sent again: the same whenever it is.

    Where the report does not say which one it is, the letter's place does.
    """
    if report.sequence < 1 or not report.gateway or "/" in report.gateway:
        return f"resend-{letter.partition}-{letter.offset}-{letter.timestamp_ms}"
    return f"resend-{report.gateway}-{report.sequence}"


def _check_source(letter: DeadLetter, topics: Topics) -> None:
    if letter.topic in (topics.control, topics.journal):
        raise Settled("the control plane writes such records itself, and newer ones by now")
    if letter.topic not in (topics.usage, topics.events):
        raise BadRecord(f"its topic {letter.topic} is not one of this deployment")
    if letter.reader == HISTORY:
        raise Settled(
            "the control plane has counted it: only the history could not use it, and sending it "
            "again would count it twice"
        )
    if letter.value is None:
        raise BadRecord("its value is null: there is nothing to send")


def _report(letter: DeadLetter, report: UsageReport, terms: Terms, now_ms: int) -> Again:
    passed_ms = max(now_ms - letter.timestamp_ms, 0)
    age_ms = max(report.age_ms, 0) + passed_ms
    if age_ms > MOST_AGE_MS:
        raise Settled("it is more than a week old: no window and no quota counts it any more")
    in_history = _has_history(letter, report, terms.partitions)
    ours = replace(
        report,
        gateway=gateway_of(letter, report),
        sequence=1,
        applied=0,
        closing=True,
        more=False,
        age_ms=age_ms,
        totals=replace(report.totals, **NO_GAUGES),
        requests=b"" if in_history else report.requests,
    )
    how = f"as gateway {ours.gateway}"
    how = f"{how}, totals only" if in_history else how
    return _usage(letter, ours, encode(ours), terms, now_ms, how)


def _usage(
    letter: DeadLetter, record: object, value: bytes, terms: Terms, now_ms: int, how: str
) -> Again:
    """For the usage topic, after a trial on an empty pool: what is sent must count."""
    pool = getattr(record, "pool", "")
    home = partition_of(pool, terms.partitions)
    sent = Again(terms.topics.usage, home, pool_key(pool), value, how)
    message = Message(letter.offset, now_ms, sent.key, sent.value)
    trial = new_pool(pool)
    try:
        advance(trial, now_ms)
        fold(trial, read_usage(message, home, terms.partitions), now_ms)
    except BadRecord:
        raise
    except Exception as error:  # a letter of what the core failed on, and still does
        raise BadRecord(f"the core of this version fails on it: {error!r}") from error
    return sent


def _has_history(letter: DeadLetter, report: UsageReport, partitions: int) -> bool:
    """Whether the history has taken its requests: it reads the log by itself (H3)."""
    at_home = letter.partition == partition_of(report.pool, partitions)
    try:
        check_report(report, letter.timestamp_ms)
    except BadRecord:
        return False
    return at_home and letter.key == pool_key(report.pool)


def _event(letter: DeadLetter, terms: Terms) -> Again:
    """An event under its own id and time: each attempt of a request is charged once."""
    heard = read(letter.value)
    if heard is None:
        raise Settled("a tick: it only moves time")
    key = letter.key or request_key(heard.event)
    happened_ms = event_ms(heard.event, letter.timestamp_ms)
    event = replace(heard.event, age_ms=None, time_ms=happened_ms)
    home = partition_of_key(key, terms.partitions)
    return Again(terms.topics.events, home, key, encode(event), "under its own request and id")
