"""One run of the quota: four gateway processes, a control worker, cuts, and what came of it.

all well ──── windows ────┬─ first cut ─┬─ mended ─┬─ all cut ─┬─ mended ─ end
"""

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiokafka import AIOKafkaConsumer, TopicPartition

from streams.broker import Broker, Door
from streams.broker.ports import free_port
from streams.config import CHECKOUT
from tests.broker.deployment import REAL_WORKER, Deployment
from tests.broker.proxy import Proxy
from tests.broker.quota_control import Watch, rules, window_id
from tests.broker.quota_terms import GATEWAYS, POOL, WINDOW_MS, Terms
from tokenweir.topics import partition_of
from tokenweir.wire import decode

PREFIX = "quota-"
PARTITIONS = 4


@dataclass(frozen=True, slots=True)
class Admission:
    """A request that was admitted; `excess` is what all that ran with it used too much."""

    place: int
    tenant: str
    window: str
    at_ms: int
    used: int
    excess: int


@dataclass(frozen=True, slots=True)
class Cut:
    """When these gateways were cut off, Unix ms, and the floors that each may have had then."""

    floors: dict[int, dict[str, tuple[float, float]]]
    from_ms: int
    to_ms: int


@dataclass
class Run:
    """What came of it."""

    terms: Terms
    well: list[str] = field(default_factory=list)  # windows in which nobody was cut off
    cuts: list[Cut] = field(default_factory=list)
    mended_ms: int = 0  # everybody has new leases again
    admitted: list[Admission] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    told: Counter[str] = field(default_factory=Counter)  # tokens by tenant, in the reports
    given: dict[tuple[str, str], int] = field(
        default_factory=dict
    )  # the most that ceilings added up to

    def used(self, tenant: str) -> dict[str, int]:
        """Tokens by window, of all gateways."""
        found: Counter[str] = Counter()
        for row in self.admitted:
            if row.tenant == tenant:
                found[row.window] += row.used
        return dict(found)

    def error(self, tenant: str, window: str) -> int:
        """By how much estimates may have let this window be overspent.

        A gateway checks its ceiling when it admits; what ran then may use more than was held.
        """
        last: dict[int, int] = {}
        for row in self.admitted:
            if (row.tenant, row.window) == (tenant, window):
                last[row.place] = row.excess
        return sum(last.values())

    def rate(self, tenant: str, place: int, from_ms: int, to_ms: int) -> float:
        """Tokens/s admitted at a gateway between two moments."""
        of = (row for row in self.admitted if (row.tenant, row.place) == (tenant, place))
        used = sum(row.used for row in of if from_ms <= row.at_ms < to_ms)
        return used * 1000 / (to_ms - from_ms)


class Process:
    """One gateway process."""

    def __init__(self, place: int, brokers: str) -> None:
        self.place = place
        self.id = ""
        self._arguments = [str(place), brokers, PREFIX]
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Until it obeys a decision."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.broker.quota_gateway", *self._arguments,
            cwd=CHECKOUT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            limit=1 << 26,
        )  # fmt: skip
        assert self._process.stdout is not None
        self.id = (await self._process.stdout.readline()).decode().strip()
        assert self.id, f"gateway {self.place} has ended"

    async def end(self, run: Run) -> None:
        """Let it close, and take what it says."""
        assert self._process is not None
        out, _ = await self._process.communicate(b"")
        assert self._process.returncode == 0
        said = json.loads(out)
        for tenant, window, at_ms, *figures in said["admitted"]:
            # What a starter pot gave before the first ceiling came is of the minute it was in.
            window = window or window_id(at_ms)
            run.admitted.append(Admission(self.place, tenant, window, at_ms, *figures))
        run.refused.update(said["refused"])
        run.lost += said["lost"]

    def kill(self) -> None:
        """If it runs still."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()


def run(terms: Terms, data: Path) -> Run:
    """A whole run, on a broker of its own; takes some windows and two cuts."""
    doors = [Door(free_port(), free_port()) for _ in range(2)]
    with Broker(data / "kafka", doors=doors) as broker:
        return asyncio.run(_run(terms, broker.bootstrap, doors, data))


async def _run(terms: Terms, brokers: str, doors: list[Door], data: Path) -> Run:
    found, watch = Run(terms), Watch()
    control = Deployment(brokers, PREFIX, data, PARTITIONS, REAL_WORKER)
    ways = [doors[0], *[doors[1]] * (GATEWAYS - 1)]
    gateways = [Process(place, f"127.0.0.1:{door.advertised}") for place, door in enumerate(ways)]
    first, others = (Proxy(door.advertised, door.listens) for door in doors)
    try:
        await control.start("0")
        await control.send(rules(terms))
        async with first, others, _watching(watch, control):
            with _killed(gateways):
                await asyncio.gather(*(gateway.start() for gateway in gateways))
                await _well(found)
                await _cut(found, watch, gateways[:1], first)
                await _cut(found, watch, gateways, first, others)
                found.mended_ms = _now_ms()
                await asyncio.sleep(terms.interval_ms * 4 / 1000)
                await asyncio.gather(*(gateway.end(found) for gateway in gateways))
                await _until(lambda: all(h.closed for h in watch.heard.values()), "all is told")
        control.assert_alive()
    finally:
        await control.stop()
    found.given = dict(watch.most)
    found.told.update(watch.told)
    return found


async def _well(found: Run) -> None:
    """Some windows with everything well, and a part of one."""
    begin_ms = (_now_ms() // WINDOW_MS + 1) * WINDOW_MS
    end_ms = begin_ms + found.terms.windows * WINDOW_MS
    found.well = [window_id(at_ms) for at_ms in range(begin_ms, end_ms, WINDOW_MS)]
    await asyncio.sleep((end_ms - _now_ms() + WINDOW_MS // 6) / 1000)


async def _cut(found: Run, watch: Watch, gateways: list[Process], *ways: Proxy) -> None:
    from_ms = _now_ms()
    for way in ways:
        way.cut()
    await asyncio.sleep(found.terms.cut_ms / 1000)
    to_ms = _now_ms()
    floors = {gateway.place: watch.held(gateway.id) for gateway in gateways}
    for way in ways:
        way.heal()
    found.cuts.append(Cut(floors, from_ms, to_ms))
    # Until then floors live from the leases before the cut, and then are split anew.
    await _until(lambda: all(watch.mended(id, to_ms) for id in watch.heard), "all is mended", 120)


@asynccontextmanager
async def _watching(watch: Watch, control: Deployment) -> AsyncIterator[None]:
    """Everything that lies in the pool's partitions is looked at beside what is inside."""
    partition = partition_of(POOL, PARTITIONS)
    topics = (control.topics.usage, control.topics.control)
    consumer = AIOKafkaConsumer(bootstrap_servers=control.brokers, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, partition) for topic in topics])

    async def look() -> None:
        async for message in consumer:
            if message.value is not None:
                watch.see(decode(message.value))

    async with consumer, asyncio.TaskGroup() as group:
        looking = group.create_task(look())
        yield
        looking.cancel()


async def _until(true: Callable[[], bool], what: str, deadline_s: float = 60) -> None:
    end_s = time.monotonic() + deadline_s
    while not true():
        assert time.monotonic() < end_s, f"not within {deadline_s} s: {what}"
        await asyncio.sleep(0.05)


@contextmanager
def _killed(gateways: list[Process]) -> Iterator[None]:
    """Whatever happens inside, no process is left."""
    try:
        yield
    finally:
        for gateway in gateways:
            gateway.kill()


def _now_ms() -> int:
    return int(time.time() * 1000)
