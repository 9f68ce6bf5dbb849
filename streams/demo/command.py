"""`python -m streams demo` and `python -m streams up`."""

import asyncio
import json
import logging
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console

from streams.config import CHECKOUT, Config, read_config
from streams.demo.plan import Wish, plan
from streams.demo.run import Outcome, Play, perform
from streams.demo.summary import summary_json, summary_table
from streams.stack import TEND_S, Stack
from streams.stack_state import find_running
from tokenweir.errors import TokenweirError

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
INTERRUPTED = 130
workers_option = click.option(
    "--workers",
    type=click.IntRange(0, 16),
    default=1,
    show_default=True,
    help="Control workers; 0: control plane and history run elsewhere.",
)


@click.command("demo", short_help="Show a shared pool under load, for a minute.")
@click.option(
    "--capacity",
    type=click.IntRange(1),
    help="Of the pool, in charged tokens/s.  [default: 320000; of a trace: its mean load, and a"
    " quarter more]",
)
@workers_option
@click.option("--duration", type=click.FloatRange(5, 86_400), help="Seconds.  [default: 60]")
@click.option("--forever", is_flag=True, help="Begin again and again, until Ctrl-C.")
@click.option(
    "--trace",
    "traces",
    type=FILE,
    multiple=True,
    metavar="FILE...",
    help="Run published traces: Azure CSV or Mooncake JSON lines, gzip or not; each file is a"
    " tenant. All files after it are traces too.",
)
@click.option(
    "--speed",
    type=click.FloatRange(0.001, 100_000),
    help="How much faster than recorded a trace runs.  [default: 1]",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Of the made-up load.")
@click.option(
    "--json",
    "report",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write the summary to this file too.",
)
@click.argument("more", nargs=-1, type=FILE, metavar="")
def demo_command(
    capacity: int | None,
    workers: int,
    duration: float | None,
    forever: bool,
    traces: tuple[Path, ...],
    speed: float | None,
    seed: int,
    report: Path | None,
    more: tuple[Path, ...],
) -> None:
    """Start a broker, ClickHouse, the control plane, the history and three gateways, put a load
    on one pool, and watch what it does. Beside them runs the example gateway, and is asked over
    HTTP once a second.

    At the end it compares what ClickHouse has with what the load itself counted, and exits with 1
    if they differ.
    """
    if report is not None and not report.absolute().parent.is_dir():
        raise click.UsageError(f"--json {report}: name a file in a folder that is there")
    if more and not traces:
        raise click.UsageError(f"{more[0]} is not an option: trace files stand after --trace")
    console = _console()
    with _errors():
        wish = Wish(capacity, duration, forever, traces + more, speed, seed)
        play = plan(wish, datetime.now(UTC))
        running = find_running(read_config(os.environ))
        with _stack(running, workers, console) as (stack, config):
            console.print(f"Applying the spec of pool {play.pool} and starting three gateways")
            outcome = asyncio.run(perform(play, stack, config, console))
    _tell(play, outcome, console, report)
    raise SystemExit(0 if outcome.equal else 1)


@click.command("up", short_help="Start the whole stack, without a load.")
@workers_option
@click.option("--events", is_flag=True, help="Gather events of gateways in other languages too.")
def up_command(workers: int, events: bool) -> None:
    """Start a broker, ClickHouse, the control plane and the history, and stay until Ctrl-C."""
    console = _console()
    with _errors(), _stack(None, workers, console, events) as (stack, config):
        console.print(_addresses(config), highlight=False, soft_wrap=True)
        while True:
            for line in stack.tend(time.monotonic()):
                console.print(line, style="yellow")
            time.sleep(TEND_S)


def _console() -> Console:
    """Where we print; what goes wrong on the way to Kafka is tried again and needs no line."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    return Console()


@contextmanager
def _stack(
    running: Config | None, workers: int, console: Console, events: bool = False
) -> Iterator[tuple[Stack, Config]]:
    """The stack that is running, or one from its start to its end; SIGTERM ends it as Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    stack = Stack(read_config(os.environ), os.environ, workers, events)
    if running is not None:
        console.print(f"Using the stack that runs in {_shown(running.data)}", style="dim")
        stack = Stack(running, os.environ, workers=0)
    config = stack.start(lambda line: console.print(line, style="dim"))
    try:
        yield stack, config
    finally:
        if not stack.empty:
            console.print("Stopping the stack", style="dim")
        stack.stop()


@contextmanager
def _errors() -> Iterator[None]:
    """One clear message instead of a traceback."""
    try:
        yield
    except (TokenweirError, RuntimeError) as error:
        raise click.ClickException(str(error)) from None
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise SystemExit(INTERRUPTED) from None


def _addresses(config: Config) -> str:
    tool = _shown(CHECKOUT / ".venv/bin/tokenweir")
    return f"""
The stack is up, and stays until Ctrl-C.
  Kafka       {config.brokers}
  ClickHouse  {config.clickhouse}
  logs, data  {_shown(config.data)}

In another terminal:
  {tool} status                           what runs, and how far it is
  {tool} apply -f streams/demo/pool.yaml  a pool
  {tool} sql "SELECT * FROM decisions ORDER BY at DESC LIMIT 5"
"""


def _tell(play: Play, outcome: Outcome, console: Console, report: Path | None) -> None:
    history, load = outcome.history, outcome.counted.tallies
    console.print(f"\nPool {play.pool}, from ClickHouse:", style="bold", highlight=False)
    console.print(summary_table(history, load))
    console.print(_verdict(outcome), highlight=False)
    console.print(_hint(play), highlight=False, soft_wrap=True, style="dim")
    if report is not None:
        report.write_text(json.dumps(summary_json(play.pool, history, load), indent=1) + "\n")


def _verdict(outcome: Outcome) -> str:
    if outcome.equal:
        return "[green]ClickHouse has exactly what the load counted."
    return "[red]ClickHouse differs from what the load counted: red cells say how."


def _hint(play: Play) -> str:
    tool = _shown(CHECKOUT / ".venv/bin/tokenweir")
    return f"""
Ask it yourself: `make up`, and in another terminal
  {tool} sql "SELECT tenant, reason, count() FROM usage
      WHERE pool = '{play.pool}' AND status = 'refused' GROUP BY ALL"
"""


def _shown(path: Path) -> str:
    """A path as short as it can be said from here."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
