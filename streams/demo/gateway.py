"""One gateway process of the demo, with the backend that its requests go to.

    python -m streams.demo.gateway --name edge-1 --pool chat --load load.csv --share 0/3 …

It says `{"ready": …}` on standard output once the control plane's first decision is in force here,
waits for a line with the start (seconds on the machine's monotonic clock), offers its share of the
load at its times, whatever becomes of it, and ends with one line of what it counted. When its
standard input ends, it offers nothing more.
"""

import asyncio
import json
import sys
import time
from argparse import ArgumentParser
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from streams.demo.arrivals import Arrival, read, share
from streams.demo.backend import SPEED, Backend
from streams.demo.tally import Tallies, Tally
from tokenweir.errors import TokenweirError, Unavailable
from tokenweir.gateway import Gateway, Refused

FIRST_DECISION_S = 60.0
LOOK_S = 0.05
LAST_LOOKS = 900  # 45 s: a broker that was killed is back by then


@dataclass(frozen=True, slots=True)
class Task:
    """What this process is to do."""

    name: str
    brokers: str
    prefix: str
    pool: str
    load: Path
    gateway: int
    gateways: int
    speed: float  # of the backend
    repeat_s: float | None  # the load begins again after this time; None: it is offered once


@dataclass(slots=True)
class Edge:
    """A gateway at work."""

    gateway: Gateway
    pool: str
    backend: Backend
    tallies: Tallies = field(default_factory=dict)
    latest_s: float = 0.0  # the most that a request was offered behind its time

    async def play(self, arrivals: AsyncIterator[Arrival], start_s: float) -> None:
        """Offer each request at its time and return when the last one has ended."""
        async with asyncio.TaskGroup() as requests:
            async for arrival in arrivals:
                due_s = start_s + arrival.at_us / 1e6
                if (ahead_s := due_s - time.monotonic()) > 0:
                    await asyncio.sleep(ahead_s)
                else:
                    self.latest_s = max(self.latest_s, -ahead_s)
                requests.create_task(self._serve(arrival))

    async def _serve(self, arrival: Arrival) -> None:
        tally = self.tallies.setdefault(arrival.tenant, Tally())
        tokens = arrival.uncached, arrival.cached, arrival.out
        try:
            async with self.gateway.request(
                tenant=arrival.tenant,
                user=arrival.user,
                pool=self.pool,
                input_tokens=arrival.uncached + arrival.cached,
                max_tokens=arrival.out,
            ) as request:
                await asyncio.sleep(self.backend.duration_s(arrival.uncached, arrival.out))
                uncached, cached, out = tokens
                request.settle(uncached=uncached, cached=cached, out=out)
            tally.spend(*tokens)
        except Refused as refused:
            tally.refuse(refused.reason)


async def until_closed(
    arrivals: Sequence[Arrival], repeat_s: float | None, closed: asyncio.Event
) -> AsyncIterator[Arrival]:
    """The arrivals in order, again and again if they repeat, until `closed` is set."""
    begin_us = 0
    while not closed.is_set():
        for arrival in arrivals:
            if closed.is_set():
                return
            yield Arrival(
                begin_us + arrival.at_us,
                arrival.tenant,
                arrival.user,
                arrival.uncached,
                arrival.cached,
                arrival.out,
            )
        if repeat_s is None:
            return
        begin_us += round(repeat_s * 1e6)


async def work(task: Task) -> None:
    """Do the whole task, from the first decision to the last line."""
    arrivals = share(read(task.load), task.gateway, task.gateways)
    orders = await _orders()
    async with Gateway(
        brokers=task.brokers, name=task.name, pools=[task.pool], prefix=task.prefix
    ) as gateway:
        if not await gateway.ready(FIRST_DECISION_S):
            raise Unavailable(
                f"no decision of pool {task.pool} in {FIRST_DECISION_S:.0f} s: does a control"
                " worker run? (tokenweir status)"
            )
        edge = Edge(gateway, task.pool, Backend(speed=task.speed))
        _say({"ready": gateway.id})
        start_s = float(await orders.readline() or "nan")
        closed = asyncio.Event()
        watch = asyncio.create_task(_watch(orders, closed))
        await edge.play(until_closed(arrivals, task.repeat_s, closed), start_s)
        watch.cancel()
        await _told(gateway, task.pool)
    tallies = {tenant: tally.to_json() for tenant, tally in edge.tallies.items()}
    _say({"gateway": gateway.id, "latest_s": round(edge.latest_s, 3), "tenants": tallies})


async def _told(gateway: Gateway, pool: str) -> None:
    """Wait until all reports but the last are with the broker, which may be just coming back."""
    for _ in range(LAST_LOOKS):
        if not gateway.stats(pool).spool_reports:
            return
        await asyncio.sleep(LOOK_S)


async def _orders() -> asyncio.StreamReader:
    """Standard input, as lines."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


async def _watch(orders: asyncio.StreamReader, closed: asyncio.Event) -> None:
    await orders.read()
    closed.set()


def _say(line: dict[str, object]) -> None:
    print(json.dumps(line), flush=True)


def task_of(arguments: Sequence[str]) -> Task:
    """The task that the command line names."""
    parser = ArgumentParser(prog="python -m streams.demo.gateway")
    for name in ("--name", "--brokers", "--pool", "--share"):
        parser.add_argument(name, required=True)
    parser.add_argument("--prefix", default="")
    parser.add_argument("--load", type=Path, required=True)
    parser.add_argument("--speed", type=float, default=SPEED)
    parser.add_argument("--repeat", type=float)
    given = parser.parse_args(arguments)
    gateway, _, gateways = given.share.partition("/")
    return Task(
        given.name,
        given.brokers,
        given.prefix,
        given.pool,
        given.load,
        int(gateway),
        int(gateways),
        given.speed,
        given.repeat,
    )


def main() -> None:
    """Do what the command line says; what goes wrong outside of it is one line and exit 1."""
    try:
        uvloop.run(work(task_of(sys.argv[1:])))
    except TokenweirError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
