"""What happened in a range, as the journal and the reports have it: nothing is computed again."""

from contextlib import aclosing
from dataclasses import dataclass, field

from tokenweir.errors import BadInput, BadRecord
from tokenweir.history.increments import requests_of
from tokenweir.history.sequences import Sequences
from tokenweir.records.journal import AuditEntry, Break, DecisionEntry, JournalEntry
from tokenweir.records.usage import UsageReport
from tokenweir.review.frames import Frame, frame_of
from tokenweir.review.log import Letter, PoolLog
from tokenweir.review.recorded import boundary_of
from tokenweir.review.replay import Progress, Told
from tokenweir.review.requests import Requests
from tokenweir.review.span import Span
from tokenweir.review.start import first_mark
from tokenweir.review.world import Noted
from tokenweir.usage_log import Message, read_usage
from tokenweir.wire import decode_as


@dataclass(frozen=True, slots=True)
class Torn:
    """A break of the journal: what is behind it does not follow from what is before."""

    at_ms: int
    why: str


@dataclass(slots=True)
class Chronicle:
    """Decisions, audit entries, breaks, requests and what could not be used, oldest first."""

    pool: str
    frames: list[Frame] = field(default_factory=list)
    notes: list[Noted] = field(default_factory=list)
    breaks: list[Torn] = field(default_factory=list)
    letters: list[Letter] = field(default_factory=list)
    requests: Requests = field(default_factory=Requests)
    reports: int = 0
    missing: int = 0  # reports that never came
    unreadable: int = 0  # reports whose requests could not be read
    _entries: dict[int, bytes] = field(default_factory=dict)  # of decisions, by boundary

    def entry(self, at_ms: int) -> JournalEntry:
        """The journal's entry of a decision of `frames`."""
        return decode_as(JournalEntry, self._entries[at_ms])

    def keep(self, entry: JournalEntry, value: bytes) -> None:
        """Keep what the journal says; what it says twice counts once."""
        match entry.body:
            case DecisionEntry() if entry.at_ms not in self._entries:
                self._entries[entry.at_ms] = value
                self.frames.append(frame_of(entry.body))
            case AuditEntry():
                self.notes.append(Noted(entry.id, entry.at_ms, entry.body))
            case Break(why=why):
                self.breaks.append(Torn(entry.at_ms, why))


async def chronicle(log: PoolLog, span: Span, told: Told = lambda _: None) -> Chronicle:
    """Read the range, which is one of times.

    Raises `BadInput` when no decision of it is recorded.
    """
    bounds = await log.bounds()
    mark = await first_mark(log, span, bounds)
    found = Chronicle(log.pool)
    await _journal(log, span, mark.position, found)
    if not found.frames:
        raise BadInput(f"pool {log.pool}: the journal has no decisions in this range")
    async with aclosing(log.messages(mark.next_offset)) as messages:
        sequences, last_ms = Sequences(), found.frames[-1].at_ms
        async for message in messages:
            if message.append_ms > last_ms + found.frames[-1].interval_ms:
                break
            _message(log, span, message, sequences, found)
            told(Progress(message.offset, mark.next_offset, bounds.end, message.append_ms))
    letters = await log.letters()
    found.letters = [one for one in letters.values() if _is_inside(span, one.append_ms)]
    return found


async def _journal(log: PoolLog, span: Span, position: int, found: Chronicle) -> None:
    seen: set[str] = set()
    async with aclosing(log.journal(position)) as entries:
        async for encoded in entries:
            entry = decode_as(JournalEntry, encoded.value)
            is_decision = isinstance(entry.body, DecisionEntry)
            at_ms = entry.at_ms if isinstance(entry.body, Break) else boundary_of(entry.id)
            if is_decision and span.to_ms is not None and at_ms > span.to_ms:
                return
            if entry.id not in seen and _is_inside(span, at_ms):
                seen.add(entry.id)
                found.keep(entry, encoded.value)


def _message(
    log: PoolLog, span: Span, message: Message, sequences: Sequences, found: Chronicle
) -> None:
    """Count the requests of a report, once."""
    try:
        record = read_usage(message, log.partition, log.partitions)
    except BadRecord:
        return
    if not isinstance(record, UsageReport):
        return
    is_known = (record.pool, record.gateway) in sequences.last
    missing = sequences.take(record.pool, record.gateway, record.sequence, message.append_ms)
    if missing is None or not _is_inside(span, message.append_ms):
        return
    found.reports += 1
    found.missing += missing if is_known else 0  # where the reading begins none is missing
    try:
        found.requests.add(requests_of(record))
    except BadRecord:
        found.unreadable += 1


def _is_inside(span: Span, at_ms: int) -> bool:
    return (span.from_ms or 0) <= at_ms and (span.to_ms is None or at_ms <= span.to_ms)
