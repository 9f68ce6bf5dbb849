"""An incident in words: what the audit says of it, minute by minute, and sums of the rest."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby

from tokenweir.cli import figures
from tokenweir.cli.report.audit_words import named, sentence
from tokenweir.history.answers import Change
from tokenweir.history.instants import instant_of
from tokenweir.records.journal import AuditEntry
from tokenweir.review.chronicle import Chronicle
from tokenweir.review.frames import Frame, lasting
from tokenweir.review.sums import Sums
from tokenweir.review.world import Noted

MINUTE_MS = 60_000
MOST_NAMES = 3
MOST_MORE = 200  # entries of one kind in one minute


@dataclass(frozen=True, slots=True)
class Event:
    """One audit entry, or several of a kind in one minute: the first, then the others."""

    time: str
    href: str
    words: str
    more: Sequence["Event"] = ()


@dataclass(frozen=True, slots=True)
class Minute:
    """One minute in which something happened."""

    id: str
    time: str
    words: str
    events: Sequence[Event]


@dataclass(frozen=True, slots=True)
class Stay:
    """A tier from one decision on."""

    href: str
    since: str
    tier: str
    ms: int
    lasted: str
    level: str


@dataclass(slots=True)
class _Slice:
    frames: list[Frame] = field(default_factory=list)
    notes: list[Noted] = field(default_factory=list)


class Links:
    """Where the page has numbers: those of a decision, else of the last one before it that it has.

    What the audit says between two decisions belongs to the first of them.
    """

    def __init__(self, picked: Sequence[int]) -> None:
        self.picked = sorted(picked)

    def to(self, at_ms: int) -> str:
        """The anchor, without its #."""
        return f"d{self.picked[max(bisect_right(self.picked, at_ms) - 1, 0)]}"


def clock(at_ms: int) -> str:
    """17:10:03, or with milliseconds where there are some."""
    at = instant_of(at_ms)
    return f"{at:%H:%M:%S}" + (f".{at_ms % 1000:03d}" if at_ms % 1000 else "")


def minutes(found: Chronicle, links: Links) -> Iterator[Minute]:
    """The minutes that the audit speaks of, and the first one."""
    slices: dict[int, _Slice] = {}
    first = instant_of(found.frames[0].at_ms)
    for frame in found.frames:
        slices.setdefault(frame.at_ms // MINUTE_MS, _Slice()).frames.append(frame)
    for note in found.notes:
        slices.setdefault(note.at_ms // MINUTE_MS, _Slice()).notes.append(note)
    for number, (minute, one) in enumerate(sorted(slices.items())):
        torn = [each for each in found.breaks if each.at_ms // MINUTE_MS == minute]
        if one.notes or torn or number == 0:
            at = instant_of(minute * MINUTE_MS)
            words = [*_words(one.frames), *(f"The log breaks here: {each.why}." for each in torn)]
            time = f"{at:%H:%M}" if at.date() == first.date() else f"{at:%Y-%m-%d %H:%M}"
            yield Minute(f"m{minute}", time, " ".join(words), events(one.notes, links))


def events(notes: Sequence[Noted], links: Links) -> list[Event]:
    """Audit entries in their order; those of a kind that repeats are put together."""
    found = []
    kinds = {note.entry.kind: 0 for note in notes}
    for kind in kinds:
        own = [_event(note, links) for note in notes if note.entry.kind == kind]
        if len(own) <= MOST_NAMES:
            found += own
        else:
            first = own[0]
            found.append(Event(first.time, first.href, first.words, own[1 : MOST_MORE + 1]))
    return sorted(found, key=lambda event: event.time)


def stays(frames: Sequence[Frame], links: Links) -> Iterator[Stay]:
    """Each tier from the decision that began it."""
    pairs = zip(frames, lasting(frames), strict=True)
    for tier, group in groupby(pairs, key=lambda pair: pair[0].tier):
        held = [*group]
        first, ms = held[0][0], sum(each for _, each in held)
        level = max(frame.level for frame, _ in held)
        yield Stay(
            links.to(first.at_ms),
            clock(first.at_ms),
            tier,
            ms,
            figures.age(ms),
            figures.percent(level),
        )


def summary(found: Chronicle, sums: Sums, links: Links) -> Iterator[tuple[str, str, str]]:
    """Sentences, each with a link's text and where it leads, or without one."""
    worst = max(found.frames, key=lambda frame: frame.level)
    held = {tier: ms for tier, ms in sums.tiers.items() if tier != "normal"}
    times = ", ".join(f"{figures.age(ms)} in {tier}" for tier, ms in held.items())
    yield f"{sums.decisions} decisions; {times or 'the tier was normal all the time'}.", "", ""
    yield (
        f"The level, smoothed, was {figures.percent(sums.level)} on average and "
        f"{figures.percent(worst.level)} at its highest,",
        f"at {clock(worst.at_ms)}.",
        links.to(worst.at_ms),
    )
    yield from _capacity(found.frames, links)
    yield f"{_refusals(sums)}", "", ""
    if found.letters:
        yield f"{len(found.letters)} messages of the log could not be used.", "", ""
    if found.missing:
        yield f"{found.missing} reports of gateways never came.", "", ""


def change_of(at_ms: int, entry: AuditEntry) -> Change:
    """An audit entry as the history has it."""
    values = {name: getattr(entry, name) for name in AuditEntry.__dataclass_fields__}
    return Change(at=instant_of(at_ms), **values)


def _event(note: Noted, links: Links) -> Event:
    words = sentence(change_of(note.at_ms, note.entry))
    return Event(clock(note.at_ms), links.to(note.at_ms), words)


def _words(frames: Sequence[Frame]) -> Iterator[str]:
    if not frames:
        return
    first, last = frames[0], frames[-1]
    lowest, highest = (pick(frame.level for frame in frames) for pick in (min, max))
    levels = {figures.percent(each): None for each in (lowest, highest)}
    yield f"Level {' to '.join(levels)}, tier {_moved(first.tier, last.tier)}."
    refused = sum(int(frame.of("refused").sum()) for frame in frames)
    if refused:
        yield f"{figures.count(refused)} requests refused{_whose(frames)}."


def _whose(frames: Sequence[Frame]) -> str:
    lost: dict[str, int] = {}
    for frame in frames:
        for name, count in zip(frame.names, frame.of("refused").tolist(), strict=True):
            lost[name] = lost.get(name, 0) + count
    most = sorted((name for name in lost if lost[name]), key=lambda name: -lost[name])[:MOST_NAMES]
    return ", most of " + ", ".join(f"{named([one])} ({figures.count(lost[one])})" for one in most)


def _moved(before: str, after: str) -> str:
    return before if before == after else f"{before}, at its end {after}"


def _capacity(frames: Sequence[Frame], links: Links) -> Iterator[tuple[str, str, str]]:
    low = min(frames, key=lambda frame: frame.capacity)
    high = max(frame.capacity for frame in frames)
    if low.capacity == high:
        yield f"The capacity was {figures.rate(high)} all the time.", "", ""
        return
    yield (
        f"The capacity was between {figures.rate(low.capacity)} and {figures.rate(high)}, lowest",
        f"from {clock(low.at_ms)}.",
        links.to(low.at_ms),
    )


def _refusals(sums: Sums) -> str:
    most = sorted(sums.tenants.values(), key=lambda one: -one.refused_tokens)[:MOST_NAMES]
    whose = ", ".join(
        f"{named([one.tenant])} {figures.count(one.refused_tokens)}"
        for one in most
        if one.refused_tokens
    )
    if not whose:
        return "Nothing was refused."
    return (
        f"{figures.count(sums.refused_tokens)} charged tokens were refused, "
        f"{figures.count(sums.spent)} were spent. Refused most: {whose}."
    )


def moment(at: datetime) -> str:
    """A moment with its date."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
