"""From rows to usage reports, each small enough for one Kafka record (PROTOCOL R2)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tokenweir.gateway.rows import Gauge, Row, requests_block, totals
from tokenweir.records.usage import UsageReport
from tokenweir.wire import encode

LARGEST = 512_000  # bytes


@dataclass(frozen=True, slots=True)
class Cut:
    """A report as it was cut, and when, on the gateway's own clock; `size` is in bytes."""

    report: UsageReport
    cut_ms: int
    size: int
    rows: int

    def aged(self, now_ms: int) -> bytes:
        """The report's bytes, to be sent now: unchanged but for its age (T5, R1)."""
        return encode(replace(self.report, age_ms=max(now_ms - self.cut_ms, 0)))


@dataclass(frozen=True, slots=True)
class Heading:
    """What all parts of a flush share."""

    pool: str
    gateway: str
    applied: int
    closing: bool
    cut_ms: int


def reports(
    heading: Heading, first: int, rows: Sequence[Row], gauges: Sequence[Gauge], largest: int
) -> list[Cut]:
    """The parts of one flush, numbered from `first`; all but the last say that more follow.

    The rows of each part add up to its own totals, and each gauge is in one part.
    """
    cuts = list(_split(heading, rows, gauges, largest))
    last = len(cuts) - 1
    return [_numbered(cut, first + place, place < last) for place, cut in enumerate(cuts)]


def _numbered(cut: Cut, sequence: int, more: bool) -> Cut:
    closing = cut.report.closing and not more
    return replace(cut, report=replace(cut.report, sequence=sequence, more=more, closing=closing))


def _split(
    heading: Heading, rows: Sequence[Row], gauges: Sequence[Gauge], largest: int
) -> Iterator[Cut]:
    cut = _cut(heading, rows, gauges)
    if cut.size <= largest or len(rows) + len(gauges) <= 1:
        yield cut
        return
    row, gauge = (len(rows) + 1) // 2, len(gauges) // 2
    yield from _split(heading, rows[:row], gauges[:gauge], largest)
    yield from _split(heading, rows[row:], gauges[gauge:], largest)


def _cut(heading: Heading, rows: Sequence[Row], gauges: Sequence[Gauge]) -> Cut:
    report = UsageReport(
        pool=heading.pool,
        gateway=heading.gateway,
        sequence=0,
        applied=heading.applied,
        closing=heading.closing,
        more=False,
        age_ms=0,
        totals=totals(rows, gauges, heading.cut_ms),
        requests=encode(requests_block(rows, heading.gateway, heading.cut_ms)) if rows else b"",
    )
    # A few bytes for the sequence and the age, which are not known yet.
    return Cut(report, heading.cut_ms, len(encode(report)) + 20, len(rows))
