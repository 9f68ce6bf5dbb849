"""Events of one partition into reports, one flush a pool and half interval (PROTOCOL R1, T5)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from tokenweir.errors import BadRecord
from tokenweir.events.count import count
from tokenweir.events.memory import Memory
from tokenweir.events.read import Heard
from tokenweir.gateway.report import LARGEST, Cut, Heading, reports
from tokenweir.gateway.rows import Row
from tokenweir.records.event import Event

HALF_MS = 500  # of the usual interval; ticks may close more often
LEAST_MS = 50  # two workers that tick in a moment of change do not make two flushes
QUIET_MS = 600_000  # a pool without events is reported, empty, for so long
OLDEST_MS = 6 * 86_400_000  # what is older is booked there: a report may not be older than a week
MOST_POOLS = 10_000  # of a partition: their sequences are kept for ever
# A report's usage lies in one bucket of the pool's window, so it covers a second; what is older
# than windows are long only matters to quotas, whose windows are minutes.
RECENT_MS, SECOND_MS, MINUTE_MS = 120_000, 1_000, 60_000
MOST_TOKENS = 10**9  # of a report: more the control plane does not believe


@dataclass(slots=True)
class Flow:
    """One pool's events in one partition."""

    sequence: int = 0  # of the last report (R1)
    newest_ms: int = 0  # append time of the newest event
    rows: list[Row] = field(default_factory=list)  # since the last cut


@dataclass(slots=True)
class Gathering:
    """The gateway that a partition of the events topic is, in the log's own time."""

    gateway: str
    pools: dict[str, Flow] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    counts: Counter[str] = field(default_factory=Counter)  # since the partition's first event
    clock_ms: int = 0  # the largest append time
    cut_ms: int = 0


def advance(state: Gathering, append_ms: int, tick: bool) -> list[Cut]:
    """Move the log's time; the reports to send, in order, if that closes a half interval.

    The first message at or past a multiple of half a second closes what came before it, a tick
    whatever is open. A cut's reports are the same whenever the log is read again.
    """
    state.clock_ms = max(state.clock_ms, append_ms)
    since_ms = state.clock_ms - state.cut_ms
    passed = state.clock_ms // HALF_MS > state.cut_ms // HALF_MS
    if not passed and not (tick and since_ms >= LEAST_MS):
        return []
    state.cut_ms = state.clock_ms
    state.memory.age(state.clock_ms)
    return [cut for name, flow in state.pools.items() for cut in _flush(state, name, flow)]


def gather(state: Gathering, heard: Heard, append_ms: int) -> None:
    """Count one event, after `advance` to its append time; raises `BadRecord`."""
    event = heard.event
    flow = _flow(state, event.pool)
    flow.newest_ms = state.clock_ms
    outcome, row = count(state.memory, event, event_ms(event, append_ms), state.clock_ms)
    state.counts[outcome] += 1
    state.counts["total_differs"] += heard.total_differs
    if row is not None:
        flow.rows.append(row)
        state.counts["estimated"] += row[16]


def event_ms(event: Event, append_ms: int) -> int:
    """When it happened, in the broker's time: its append less its age (T5).

    Without an age its own clock is believed where that is not ahead of the broker's.
    """
    if event.age_ms is not None:
        happened_ms = append_ms - event.age_ms
    elif event.time_ms is not None:
        happened_ms = min(event.time_ms, append_ms)
    else:
        happened_ms = append_ms
    return max(happened_ms, append_ms - OLDEST_MS)


def _flow(state: Gathering, pool: str) -> Flow:
    if pool not in state.pools and len(state.pools) >= MOST_POOLS:
        raise BadRecord(f"pool {pool!r} would be one more than {MOST_POOLS} in this partition")
    return state.pools.setdefault(pool, Flow())


def _flush(state: Gathering, name: str, flow: Flow) -> Iterator[Cut]:
    """The pool's reports of this cut. All of them are closing: who only meters holds no lease."""
    if not flow.rows and state.clock_ms - flow.newest_ms > QUIET_MS:
        return
    heading = Heading(name, state.gateway, 0, True, state.cut_ms)
    for rows in _parts(flow.rows, state.cut_ms):
        cuts = reports(heading, flow.sequence + 1, rows, (), LARGEST)
        flow.sequence += len(cuts)
        yield from cuts
    flow.rows.clear()


def _parts(rows: Sequence[Row], cut_ms: int) -> Iterator[list[Row]]:
    """Rows of one second, in the order of their times; one empty part when there are none."""
    if not rows:
        yield []
    ordered = sorted(rows, key=lambda row: row[21])
    for _, second in groupby(ordered, key=lambda row: _stretch(row[21], cut_ms)):
        yield from _believable(list(second))


def _stretch(at_ms: int, cut_ms: int) -> tuple[int, int]:
    size_ms = SECOND_MS if cut_ms - at_ms < RECENT_MS else MINUTE_MS
    return size_ms, at_ms // size_ms


def _believable(rows: Sequence[Row]) -> Iterator[list[Row]]:
    part: list[Row] = []
    tokens = 0
    for row in rows:
        more = _tokens(row)
        if part and tokens + more > MOST_TOKENS:
            yield part
            part, tokens = [], 0
        part.append(row)
        tokens += more
    yield part


def _tokens(row: Row) -> int:
    """All that the row adds to its report's totals, corrections as well."""
    return abs(row[11]) + abs(row[13]) + abs(row[14]) + row[15]
