"""An hour of a pool replayed, against its requests folded one by one: `python -m bench.replay`.

1 000 requests a second of 100 tenants through 10 gateways that report every half second, decided
every second. First the log is folded by the live code, which writes the journal; then `replay`
reads both again and compares. The peers take the same requests as a record each, of a part of the
log: the live code itself, and a program in plain Python (`plain.py` says what it does and what it
leaves out), whose decisions are checked. Times are CPU seconds of one core.
"""

import asyncio
import gc
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import click
from rich.console import Console
from rich.table import Table

from bench.replay import load, plain
from tokenweir.core.pool import new_pool
from tokenweir.records.journal import DecisionEntry
from tokenweir.review.fold import PoolFold
from tokenweir.review.log import Bounds, Entry, Letter
from tokenweir.review.replay import Outcome, replay
from tokenweir.review.span import Span
from tokenweir.topics import partition_of
from tokenweir.usage_log import Message
from tokenweir.wire import encode

AIM_S = 30.0  # for the hour
ASKED = 20.0  # times as fast as a fold of single requests

COMPARED = (
    "spent",
    "demand",
    "used",
    "rate",
    "debt",
    "weight",
    "floor",
    "borrowed",
    "grant",
    "leased",
)
ROUNDING = 10  # milli-tokens/s, beside one part of 100 000
PLAIN_S, SINGLE_S = 30, 8  # of the log, for the peers
TURNS = 5


@dataclass(frozen=True, slots=True)
class Log:
    """A log and its journal in memory."""

    log: Sequence[Message]
    entries: Sequence[Entry]
    pool: str = load.POOL
    partitions: int = load.PARTITIONS
    partition: int = partition_of(load.POOL, load.PARTITIONS)

    async def bounds(self) -> Bounds:
        return Bounds(0, len(self.log), True)

    async def messages(self, start: int) -> AsyncGenerator[Message, None]:
        for message in self.log[start:]:
            yield message

    async def time_at(self, offset: int) -> int | None:
        return self.log[offset].append_ms

    async def journal_start(self) -> int:
        return 0

    async def journal(self, position: int) -> AsyncGenerator[Entry, None]:
        for entry in self.entries[position:]:
            yield entry

    async def journal_before(self, time_ms: int | None) -> AsyncGenerator[Sequence[Entry], None]:
        yield self.entries

    async def letters(self) -> Mapping[int, Letter]:
        return {}


def live(log: Sequence[Message]) -> list[Entry]:
    """Fold the log as the control worker does; its journal."""
    fold, found = PoolFold(new_pool(load.POOL), Log(log, ()), {}), list[Entry]()
    for message in log:
        step = fold.take(message)
        if step is not None and step.decided is not None:
            found += [Entry(len(found), encode(entry)) for entry in step.decided.entries]
    return found


def timed(what: Callable[[], object]) -> float:
    """CPU seconds."""
    began = time.process_time()
    what()
    return time.process_time() - began


def check(made: Sequence[load.Content], peer: plain.Plain) -> None:
    """The plain program decided the same: on equal figures, and within its rounding."""
    fold = PoolFold(new_pool(load.POOL), Log((), ()), {})
    steps = [fold.take(message) for message in load.messages(made, PLAIN_S)]
    bodies = [step.decided.entries[0].body for step in steps if step and step.decided]
    for body, decided in zip(bodies, peer.decided, strict=True):
        assert isinstance(body, DecisionEntry)
        rows = body.tenants
        columns = zip(rows.tenant, *(getattr(rows, name) for name in COMPARED), strict=True)
        for name, *values in columns:
            if name in decided and not _agree(values, plain.figures(decided[name])):
                found = plain.figures(decided[name])
                raise click.ClickException(f"{body.decision.id}: {name}: {values} and {found}")


def _agree(ours: Sequence[int], theirs: Sequence[int]) -> bool:
    pairs = zip(ours, theirs, strict=True)
    return all(abs(left - right) <= ROUNDING + left // 100_000 for left, right in pairs)


@click.command()
@click.option("--seconds", default=3600, type=click.IntRange(60), help="Of the pool's time.")
def main(seconds: int) -> None:
    """Measure, and exit 1 when the replay is not the same or not as fast as is asked for.

    The replay and its peers take turns, and medians count: the machine may have other things to do.
    """
    made = load.contents()
    log, singles = list(load.messages(made, seconds)), list(load.single_messages(made, PLAIN_S))
    gc.freeze()  # what is kept in memory here is no work of any lane
    journal = list[Entry]()
    live_s = timed(lambda: journal.extend(live(log)))
    gc.freeze()
    turns = [(replayed(log, journal), *peers(made, singles)) for _ in range(TURNS)]
    replay_s, single_s, plain_s = (median(column) for column in zip(*turns, strict=True))
    figures = {
        "the live code, writing its journal": (seconds, live_s),
        "replay, compared with the journal": (seconds, replay_s),
        "a record a request, the live code": (SINGLE_S, single_s),
        "a record a request, plain Python": (PLAIN_S, plain_s),
    }
    Console().print(table(figures))
    raise SystemExit(not told(figures))


def told(figures: Mapping[str, tuple[int, float]]) -> bool:
    """Print ratios and the hour; whether the replay is as much faster as is asked for."""
    folded, ours, single, one_by_one = (part_s / cpu_s for part_s, cpu_s in figures.values())
    ratio = ours / one_by_one
    is_met = ratio >= ASKED
    click.echo(
        f"replay / a record a request, plain Python: {ratio:.1f}; "
        f"{ASKED:g} is asked for and {'reached' if is_met else 'NOT reached'}"
    )
    click.echo(f"replay / a record a request, the live code: {ours / single:.1f}")
    click.echo(
        f"an hour folded in {3600 / folded:.1f} s, compared too in {3600 / ours:.1f} s; "
        f"the aim is {AIM_S:g} s"
    )
    return is_met


def replayed(log: Sequence[Message], journal: Sequence[Entry]) -> float:
    """CPU seconds of a replay, which must find the same as the journal has."""
    outcomes = list[Outcome]()
    replay_s = timed(lambda: outcomes.append(asyncio.run(replay(Log(log, journal), Span()))))
    if not outcomes[0].is_identical:
        raise click.ClickException(f"not the same: {outcomes[0].difference}")
    return replay_s


def peers(made: Sequence[load.Content], singles: Sequence[Message]) -> tuple[float, float]:
    """CPU seconds of the live code and of plain Python for their parts of the log."""
    part, found = singles[: 1 + SINGLE_S * load.RATE], list[plain.Plain]()
    single_s = timed(lambda: live(part))
    plain_s = timed(lambda: found.append(plain.fold(singles)))
    check(made, found[0])
    return single_s, plain_s


def table(figures: Mapping[str, tuple[int, float]]) -> Table:
    """Requests a second of each lane."""
    shown = Table("lane", "requests", "CPU s", "requests/s")
    for name, (part_s, cpu_s) in figures.items():
        requests = part_s * load.RATE
        shown.add_row(name, f"{requests:,}", f"{cpu_s:.1f}", f"{requests / cpu_s:,.0f}")
    return shown


if __name__ == "__main__":
    main()
