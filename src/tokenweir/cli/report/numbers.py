"""The numbers of decisions, for a page: which ones, and each in tables."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tokenweir.cli import figures
from tokenweir.cli.history.journal_story import told
from tokenweir.cli.history.story import Story, decision_words, tenant_cells
from tokenweir.cli.report.audit_words import sentence
from tokenweir.cli.report.words import Links, change_of, clock
from tokenweir.history.answers import Figures
from tokenweir.records.journal import AuditEntry
from tokenweir.review.chronicle import Chronicle
from tokenweir.review.frames import Frame
from tokenweir.review.sums import tier_changes

# Rows of tenants in all tables together: some megabytes of page.
MOST_ROWS = 5_000
TENANTS = (
    "Tenant",
    "Class",
    "Baseline",
    "Demand",
    "Floor",
    "Weight",
    "Debt",
    "Grant",
    "Before",
    "Leased",
    "Spent",
    "Queued",
    "Refused",
)
GATEWAYS = ("Gateway", "Leased", "Last seen", "Obeys", "Missing reports")


@dataclass(frozen=True, slots=True)
class Numbers:
    """One decision's part of the page; `tenants` and `gateways` are tables."""

    href: str
    time: str
    tier: str
    words: str
    open: bool
    lines: Sequence[str]
    audit: Sequence[str]
    tenants: dict[str, Any]
    gateways: dict[str, Any]


def chosen(found: Chronicle, at_ms: int | None) -> list[int]:
    """The decisions whose numbers the page has: all if that is not too much.

    Else those that the audit speaks of, those at which a tier begins, the highest and the worst,
    and others evenly over the range.
    """
    frames = found.frames
    most = max(1, MOST_ROWS // max(1, max(len(frame.names) for frame in frames)))
    if len(frames) <= most:
        return [frame.at_ms for frame in frames]
    known = [frame.at_ms for frame in frames]
    wanted = [focus(found, at_ms), frames[0].at_ms, frames[-1].at_ms]
    wanted.append(max(frames, key=lambda frame: frame.level).at_ms)
    wanted.append(min(frames, key=lambda frame: frame.capacity).at_ms)
    wanted += [frame.at_ms for frame in tier_changes(frames)]
    wanted += [_before(known, note.at_ms) for note in found.notes]
    picked = [*dict.fromkeys(wanted)][: max(most, 8)]
    spare = most - len(picked)
    if spare > 0:
        picked += known[:: -(-len(known) // spare)]
    return sorted(set(picked))


def focus(found: Chronicle, at_ms: int | None) -> int:
    """The decision that stands open: the one in force at a time, else the one that refused most."""
    if at_ms is not None:
        return _before([frame.at_ms for frame in found.frames], at_ms)
    return max(found.frames, key=_badness).at_ms


def numbers(found: Chronicle, links: Links, open_ms: int) -> Iterator[Numbers]:
    """The parts, in order of time."""
    known = [frame.at_ms for frame in found.frames]
    for at_ms in links.picked:
        place = bisect_left(known, at_ms)
        entries = [found.entry(each) for each in known[max(place - 1, 0) : place + 1]]
        until = known[place + 1] if place + 1 < len(known) else at_ms + 1
        story = told(found.pool, at_ms, entries)
        audit = [note for note in found.notes if at_ms <= note.at_ms < until]
        yield Numbers(
            href=links.to(at_ms),
            time=clock(at_ms),
            tier=story.decision.tier,
            words=_words(found.frames[place]),
            open=at_ms == open_ms,
            lines=[*decision_words(story)],
            audit=[_audit(note.at_ms, note.entry) for note in audit],
            tenants=_tenants(story),
            gateways=_gateways(story, at_ms),
        )


def _audit(at_ms: int, entry: AuditEntry) -> str:
    return sentence(change_of(at_ms, entry))


def _words(frame: Frame) -> str:
    refused = int(frame.of("refused").sum())
    lost = f", {figures.count(refused)} requests refused" if refused else ""
    granted = f"granted {figures.rate(frame.granted)} of {figures.rate(frame.capacity)}"
    return f"level {figures.percent(frame.level)}, {granted}{lost}"


def _badness(frame: Frame) -> tuple[int, int]:
    return int(frame.of("refused_tokens").sum()), frame.level


def _before(known: Sequence[int], at_ms: int) -> int:
    """The last decision up to a time, else the first."""
    return known[max(bisect_right(known, at_ms) - 1, 0)]


def _tenants(story: Story) -> dict[str, Any]:
    before = {row.tenant: row.grant for row in story.tenants_before}
    return {
        "columns": TENANTS,
        "rows": [_row(row, before) for row in story.tenants],
        "caption": "Tenants that were not idle. Rates in charged tokens a second; spent since the "
        "decision before, in tokens; queued and refused in requests",
    }


def _row(row: Figures, before: dict[str, int]) -> list[str]:
    *decided, queued, refused = tenant_cells(row, before, "–")
    return [*decided, figures.count(row.spent), queued, refused]


def _gateways(story: Story, at_ms: int) -> dict[str, Any]:
    rows = [
        [
            row.gateway,
            figures.rate(row.leased),
            f"{figures.age(at_ms - int(row.seen.timestamp() * 1000))} ago",
            _obeys(int(row.applied.timestamp() * 1000), at_ms),
            figures.count(row.missing),
        ]
        for row in story.gateways
    ]
    return {"columns": GATEWAYS, "rows": rows, "caption": "Gateways, and what each may spend"}


def _obeys(applied_ms: int, at_ms: int) -> str:
    if not applied_ms:
        return "nothing yet"
    return f"a decision {figures.age(at_ms - applied_ms)} old"
