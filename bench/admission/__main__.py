"""Admit and settle, median and p99, against the library `limits`; all in one run.

The lanes take turns with the same requests in the same order, so that a machine that slows down
slows all of them; medians over the turns are printed.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import click
from limits.storage import MemoryStorage, RedisStorage
from rich.console import Console
from rich.table import Table

from bench.admission import redis_server
from bench.admission.orders import TENANTS, Figures, Order, orders
from bench.admission.ours import Core, Sdk
from bench.admission.peers import Limits

Turn = Callable[[Sequence[Order]], Figures]

# How many times faster than its peer the median must be: (lane, peer): at least; 0: only shown.
# A second hit, which settles, is the same work as ours; a hit alone never learns what was used. It
# takes as long as both of ours do, and a tenth is what a turn of this length tells apart.
BOUNDS = {
    ("core", "redis settled"): 20.0,
    ("core", "redis"): 20.0,
    ("core", "memory settled"): 1.0,
    ("core", "memory"): 0.9,
    ("sdk", "redis settled"): 0.0,
    ("sdk", "memory settled"): 0.0,
}
# What is aimed at, and only reported: median and p99 in µs, at most.
AIM = (5.0, 20.0)
NAMES = {
    "sdk": "SDK: async with gateway.request(...), settle",
    "core": "its core alone: ask, settle",
    "memory": "(a) limits in memory: one hit, nothing settled",
    "memory settled": "(a) the same, settled by a second hit",
    "redis": "(b) limits on Redis, loopback: one hit",
    "redis settled": "(b) the same, settled by a second hit",
}
SETTLES = {"memory": False, "memory settled": True, "redis": False, "redis settled": True}


@click.command()
@click.option("--runs", default=5, show_default=True, help="Turns of every lane.")
@click.option("--requests", default=50_000, show_default=True, help="Requests a turn.")
@click.option("--remote", default=5_000, show_default=True, help="Requests a turn on Redis.")
@click.option("--only", multiple=True, type=click.Choice(list(NAMES)), help="Only these lanes.")
def main(runs: int, requests: int, remote: int, only: tuple[str, ...]) -> None:
    """Measure admit + settle with 20 000 tenants known, and print a table with ratios."""
    batch = orders(max(requests, remote))
    counts = {name: remote if name.startswith("redis") else requests for name in NAMES}
    with ExitStack() as held:
        lanes = _lanes(only or tuple(NAMES), held)
        found: dict[str, list[Figures]] = {name: [] for name in lanes}
        for turn in range(runs):
            for name, lane in lanes.items():
                found[name].append(lane(batch[: counts[name]]))
                click.echo(f"turn {turn + 1}: {NAMES[name]}: {found[name][-1]}", err=True)
    console = Console()
    console.print(_figures(found))
    missed = _ratios(console, found)
    raise SystemExit(1 if missed else 0)


def _lanes(names: Sequence[str], held: ExitStack) -> dict[str, Turn]:
    """The lanes that can run here; each knows every tenant."""
    lanes: dict[str, Turn] = {}
    url = _redis(held) if any(name.startswith("redis") for name in names) else None
    for name in names:
        if name == "sdk":
            lanes[name] = Sdk().turn
        elif name == "core":
            lanes[name] = Core().turn
        elif name.startswith("memory"):
            lanes[name] = Limits(MemoryStorage(), SETTLES[name]).turn
        elif url is not None:
            storage = RedisStorage(url, key_prefix=name.replace(" ", "-"))
            lanes[name] = Limits(storage, SETTLES[name]).turn
    return lanes


def _redis(held: ExitStack) -> str | None:
    """Start Redis; None, and a line that says how to get it, where there is none."""
    binary = redis_server.executable()
    if binary is None:
        click.echo(f"No Redis, so its lanes are left out: {redis_server.HOW_TO_GET_IT}.", err=True)
        return None
    data = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="tokenweir-bench-")))
    url = held.enter_context(redis_server.running(binary, data))
    click.echo(f"Redis {redis_server.version(url)}: {binary}", err=True)
    return url


def _figures(found: Mapping[str, Sequence[Figures]]) -> Table:
    table = Table(
        f"lane, {TENANTS:,} tenants known", "median µs", "p99 µs", "medians from", "to", "aside µs"
    )
    for name, turns in found.items():
        medians = [turn.median_us for turn in turns]
        cells = (
            _median(turns),
            median(turn.p99_us for turn in turns),
            min(medians),
            max(medians),
            median(turn.aside_us for turn in turns),
        )
        table.add_row(NAMES[name], *(f"{cell:,.2f}" for cell in cells))
    return table


def _ratios(console: Console, found: Mapping[str, Sequence[Figures]]) -> bool:
    table, missed = Table("ratio of a turn's medians, median", "measured", "at least"), False
    for (lane, peer), bound in BOUNDS.items():
        if lane in found and peer in found:
            # Turn by turn: what slows the machine down for a while slows both.
            turns = zip(found[peer], found[lane], strict=True)
            ratio = median(theirs.median_us / ours.median_us for theirs, ours in turns)
            missed |= ratio < bound
            least = f"{bound:g}" if bound else "shown only"
            table.add_row(f"{peer} / {lane}", f"{ratio:,.2f}", least)
    if table.row_count:
        console.print(table)
    console.print(f"Aimed at, and not a bound: median {AIM[0]:g} µs, p99 {AIM[1]:g} µs.")
    return missed


def _median(turns: Sequence[Figures]) -> float:
    return median(turn.median_us for turn in turns)


if __name__ == "__main__":
    main()
