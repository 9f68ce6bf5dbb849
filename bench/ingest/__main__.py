"""Requests a second through one control worker against its peers; all in one run, on one broker.

The lanes take turns, so that a machine that slows down slows all of them; medians are printed.
"""

import asyncio
import logging
import os
import re
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import click
from rich.console import Console
from rich.table import Table

from bench.ingest import control, load
from streams.broker import Broker
from streams.config import CHECKOUT, Config, read_config
from streams.topics import create_topics
from tokenweir.topics import Topics

# What the ratios must reach: (lane, peer): at least.
BOUNDS = {
    ("control 500", "faust"): 100.0,
    ("control 500", "quix"): 20.0,
    ("control 500", "bare 500"): 0.5,
    ("control 20", "faust"): 5.0,
}
NAMES = {
    "control 500": "control worker, 500 requests a report",
    "control 20": "control worker, 20 requests a report",
    "faust": "(a) plain Faust, a record a request, windowed table",
    "quix": "(b) Quix Streams, a record a request, tumbling window",
    "bare 500": "(c) bare aiokafka loop, decode and fold, 500 a report",
    "bare 20": "(c) the same, 20 a report",
}


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much each lane reads: records."""

    reports: int
    records: int


def run_control(brokers: str, sizes: Sizes, size: int) -> float:
    """Requests a second through one worker."""
    prefix = _new_topics(brokers)
    asyncio.run(load.produce_reports(brokers, Topics(prefix).usage, sizes.reports, size))
    return asyncio.run(control.measure(brokers, prefix, sizes.reports)) * size


def run_bare(brokers: str, sizes: Sizes, size: int) -> float:
    """Requests a second through peer (c)."""
    topic = Topics(_new_topics(brokers)).usage
    asyncio.run(load.produce_reports(brokers, topic, sizes.reports, size))
    return _peer("bare", brokers, topic, sizes.reports) * size


def run_peer(brokers: str, sizes: Sizes, module: str) -> float:
    """Requests a second through peer (a) or (b)."""
    topic = Topics(_new_topics(brokers)).usage
    asyncio.run(load.produce_requests(brokers, topic, sizes.records))
    return _peer(module, brokers, topic, sizes.records)


def _new_topics(brokers: str) -> str:
    """Fresh topics, the same for every lane; the prefix of their names."""
    prefix = f"bench-{uuid.uuid4().hex[:8]}-"
    config = Config(topic_prefix=prefix, application=f"{prefix}control")
    asyncio.run(create_topics(config, brokers))
    return prefix


def _peer(module: str, brokers: str, topic: str, count: int) -> float:
    command = [sys.executable, "-m", f"bench.ingest.{module}", brokers, topic, str(count)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=300)
    # Faust's worker puts the terminal's control codes before what is printed.
    figures = re.findall(r"\d+\.\d+", done.stdout)
    if not figures:
        raise click.ClickException(f"{module} printed no figure; it said: {done.stderr[-2000:]}")
    return float(figures[-1])


logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # it tells each retry on a new topic


@click.command()
@click.option("--runs", default=3, show_default=True, help="Turns of every lane.")
@click.option("--reports", default=4000, show_default=True, help="Reports a run.")
@click.option("--records", default=20_000, show_default=True, help="Records a run of (a) and (b).")
@click.option("--only", multiple=True, type=click.Choice(list(NAMES)), help="Only these lanes.")
def main(runs: int, reports: int, records: int, only: tuple[str, ...]) -> None:
    """Measure requests a second, and print them as a table with ratios."""
    sizes = Sizes(reports, records)
    config = read_config(os.environ)
    if config.brokers:
        measure(config.brokers, sizes, runs, only)
        return
    with tempfile.TemporaryDirectory(prefix="tokenweir-bench-") as data:
        broker = Broker(Path(data))
        try:
            measure(broker.start(), sizes, runs, only)
        finally:
            broker.stop()


def measure(brokers: str, sizes: Sizes, runs: int, only: tuple[str, ...]) -> None:
    """Run the lanes in turn; exit 1 when a ratio misses its bound."""
    lanes: dict[str, Callable[[], float]] = {
        "control 500": lambda: run_control(brokers, sizes, 500),
        "bare 500": lambda: run_bare(brokers, sizes, 500),
        "control 20": lambda: run_control(brokers, sizes, 20),
        "bare 20": lambda: run_bare(brokers, sizes, 20),
        "quix": lambda: run_peer(brokers, sizes, "quix"),
        "faust": lambda: run_peer(brokers, sizes, "plain_faust"),
    }
    chosen = {name: lane for name, lane in lanes.items() if not only or name in only}
    figures: dict[str, list[float]] = {name: [] for name in chosen}
    for turn in range(runs):
        for name, lane in chosen.items():
            figures[name].append(lane())
            click.echo(
                f"turn {turn + 1}: {NAMES[name]}: {figures[name][-1]:,.0f} requests/s", err=True
            )
    console = Console()
    console.print(_figures(figures))
    missed = _ratios(console, figures)
    raise SystemExit(1 if missed else 0)


def _figures(figures: dict[str, list[float]]) -> Table:
    table = Table("lane", "requests/s, median", "lowest", "highest")
    for name, values in figures.items():
        table.add_row(
            NAMES[name], *(f"{v:,.0f}" for v in (median(values), min(values), max(values)))
        )
    return table


def _ratios(console: Console, figures: dict[str, list[float]]) -> bool:
    table, missed = Table("ratio of the medians", "measured", "at least"), False
    for (lane, peer), bound in BOUNDS.items():
        if lane in figures and peer in figures:
            ratio = median(figures[lane]) / median(figures[peer])
            missed |= ratio < bound
            table.add_row(f"{lane} / {peer}", f"{ratio:,.2f}", f"{bound:g}")
    if table.row_count:
        console.print(table)
    return missed


if __name__ == "__main__":
    main()
