"""One run of the demo on a stack that is up: spec, gateways, view, and the sums at the end."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from aiokafka import AIOKafkaProducer
from rich.console import Console
from rich.live import Live

from streams.config import Config
from streams.demo import arrivals as load_file
from streams.demo.arrivals import Arrival
from streams.demo.feed import Feed
from streams.demo.frame import Frame
from streams.demo.load import END_S, Counted, Load
from streams.demo.summary import TotalsOfPool, agree, as_tallies
from streams.demo.tally import Tallies, together
from streams.demo.view import line, render
from streams.demo.visitor import visiting
from streams.stack import TEND_S, Stack
from tokenweir.errors import Unavailable
from tokenweir.history.client import connect
from tokenweir.history.queries import read
from tokenweir.records.spec import PoolSpec
from tokenweir.topics import Topics, partition_of, pool_key
from tokenweir.wire import encode

GATEWAYS = ("edge-1", "edge-2", "edge-3")
PICTURE_S = 0.3
LINE_S = 5.0
LOOK_S = 0.5  # between two looks into the history
PATIENCE_S = 30.0  # the history makes no progress for so long: it has all that it will have


@dataclass(frozen=True, slots=True)
class Play:
    """What is to be run."""

    spec: PoolSpec
    arrivals: Sequence[Arrival]
    length_s: float  # of the load
    backend_speed: float
    forever: bool
    visited: bool  # over HTTP too
    phase: Callable[[float], str]  # of a part of the run

    @property
    def pool(self) -> str:
        """The pool's name."""
        return self.spec.pool


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the load counted, and what the history counts."""

    counted: Counted
    history: Tallies

    @property
    def equal(self) -> bool:
        """Whether both are the same."""
        return agree(self.history, self.counted.tallies)


async def perform(play: Play, stack: Stack, config: Config, console: Console) -> Outcome:
    """Run the load, show the pool, and compare; a first Ctrl-C ends the load, a second one all.

    Raises `Unavailable` when a part does not answer.
    """
    feed = Feed(play.pool)
    folder = config.data / "demo"
    folder.mkdir(parents=True, exist_ok=True)
    load_file.write(folder / "load.csv", play.arrivals)
    brokers = config.brokers or ""
    async with (
        _beside(_tend(stack, console)),
        _applied(play.spec, config),
        Load(_commands(play, config, folder / "load.csv"), folder) as load,
        _beside(feed.follow(brokers, Topics(config.topic_prefix), config.partitions)),
        visiting(config, play.pool, folder) if play.visited else nullcontext() as visitor,
    ):
        start_s = await load.begin()
        if visitor is not None:
            visitor.begin()
        async with _beside(_show(play, feed, start_s, console)):
            counted = await _counted(load)
    if visitor is not None:
        counted = replace(counted, tallies=together((counted.tallies, visitor.tallies)))
    return Outcome(counted, await _history(play.pool, counted.tallies, config, console))


@asynccontextmanager
async def _applied(spec: PoolSpec, config: Config) -> AsyncIterator[None]:
    producer = AIOKafkaProducer(bootstrap_servers=config.brokers, acks="all")
    await producer.start()
    try:
        partition = partition_of(spec.pool, config.partitions)
        topic = Topics(config.topic_prefix).usage
        await producer.send_and_wait(topic, encode(spec), pool_key(spec.pool), partition)
    finally:
        await producer.stop()
    yield


async def _counted(load: Load) -> Counted:
    """The end of the load: by itself, or soon after a Ctrl-C."""
    loop, ending = asyncio.get_running_loop(), asyncio.Event()
    everything = asyncio.current_task()
    assert everything is not None

    def interrupted() -> None:
        if ending.is_set():
            everything.cancel()
        ending.set()
        load.close()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupted)
    counting = asyncio.create_task(load.counted())
    ended = asyncio.create_task(ending.wait())
    await asyncio.wait({counting, ended}, return_when=asyncio.FIRST_COMPLETED)
    ended.cancel()
    async with asyncio.timeout(END_S):
        return await counting


async def _show(play: Play, feed: Feed, start_s: float, console: Console) -> None:
    """Draw pictures, or without a terminal print lines, until cancelled."""
    if not console.is_terminal:
        while True:
            await asyncio.sleep(LINE_S)
            console.print(line(_frame(play, feed, start_s)), soft_wrap=True, highlight=False)
    with Live(console=console, auto_refresh=False) as live:
        while True:
            live.update(render(_frame(play, feed, start_s)), refresh=True)
            await asyncio.sleep(PICTURE_S)


def _frame(play: Play, feed: Feed, start_s: float) -> Frame:
    run_s = max(time.monotonic() - start_s, 0.0)
    part = run_s / play.length_s
    return Frame(
        entry=feed.entry,
        refused=feed.refused,
        phase=play.phase(part % 1 if play.forever else part),
        left_s=None if play.forever else play.length_s - run_s,
        pool=play.pool,
    )


async def _history(pool: str, load: Tallies, config: Config, console: Console) -> Tallies:
    """The history's totals, once they are the load's, or once they change no more."""
    console.print("The load is over; the history catches up", style="dim")
    found: Tallies = {}
    moved_s = time.monotonic()
    while time.monotonic() - moved_s < PATIENCE_S:
        newest = await asyncio.to_thread(_totals, pool, config.clickhouse or "")
        if newest is not None and newest != found:
            found, moved_s = newest, time.monotonic()
        elif agree(found, load):
            break  # twice the same
        await asyncio.sleep(LOOK_S)
    return found


def _totals(pool: str, url: str) -> Tallies | None:
    """The totals now; None while ClickHouse does not answer."""
    with suppress(Unavailable):
        return as_tallies(read(connect(url), TotalsOfPool(pool)))
    return None


async def _tend(stack: Stack, console: Console) -> None:
    while True:
        for text in await asyncio.to_thread(stack.tend, time.monotonic()):
            console.print(text, style="yellow")
        await asyncio.sleep(TEND_S)


@asynccontextmanager
async def _beside(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Do something at the same time; its error is ours."""
    task = asyncio.create_task(work)
    try:
        yield
        if task.done():
            task.result()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _commands(play: Play, config: Config, file: Path) -> Mapping[str, Sequence[str]]:
    common = {
        "--brokers": config.brokers or "",
        "--prefix": config.topic_prefix,
        "--pool": play.pool,
        "--load": str(file),
        "--speed": str(play.backend_speed),
    } | ({"--repeat": str(play.length_s)} if play.forever else {})
    given = [f"{name}={value}" for name, value in common.items()]
    return {
        name: [*given, f"--name={name}", f"--share={at}/{len(GATEWAYS)}"]
        for at, name in enumerate(GATEWAYS)
    }
