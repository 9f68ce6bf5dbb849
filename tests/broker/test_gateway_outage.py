"""Gateways that are killed, cut off, or blocked, on a real broker."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from streams.broker import Broker, Door
from streams.broker.ports import free_port
from streams.config import CHECKOUT
from tests.broker.deployment import Deployment
from tests.broker.proxy import Proxy
from tests.broker.settling import TOKENS
from tests.broker.test_gateway import Control, control_of, gateway_of, run, until
from tests.pools import spec, tenant
from tests.unit.gateway.made import POOL
from tokenweir.gateway import Gateway, Refused
from tokenweir.gateway.health import Limits, health_of
from tokenweir.records.usage import RequestsBlock, UsageReport
from tokenweir.wire import decode, decode_as

pytestmark = [pytest.mark.broker, pytest.mark.chaos]


@pytest.fixture(scope="module")
def doors() -> tuple[Door, Door]:
    return Door(free_port(), free_port()), Door(free_port(), free_port())


@pytest.fixture(scope="module")
def broker(doors: tuple[Door, Door], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that is reached directly, or through one of two doors."""
    with Broker(tmp_path_factory.mktemp("kafka"), doors=doors) as broker:
        yield broker


def counted(records: list[bytes]) -> dict[str, list[UsageReport]]:
    """What the log counts of each gateway: a sequence that is not above the last is a repeat."""
    found: dict[str, list[UsageReport]] = defaultdict(list)
    for value in records:
        report = decode(value)
        if not isinstance(report, UsageReport):
            continue
        before = found[report.gateway]
        if not before or report.sequence > before[-1].sequence:
            before.append(report)
    return dict(found)


def ended(reports: list[UsageReport]) -> list[str]:
    """The ids of the requests that were settled, as often as they are told."""
    blocks = (decode_as(RequestsBlock, r.requests) for r in reports if r.requests)
    rows = (row for block in blocks for row in zip(block.id, block.status, strict=True))
    return [id for id, status in rows if status == "done"]


def assert_whole(reports: list[UsageReport]) -> None:
    """No sequence is missing, and the last report gives everything back."""
    assert [report.sequence for report in reports] == list(range(1, len(reports) + 1))
    assert [report.closing for report in reports] == [False] * (len(reports) - 1) + [True]


class Settling:
    """The processes of `settling`, one after the other, on one spool."""

    def __init__(self, brokers: str, prefix: str, folder: Path) -> None:
        self.notes = folder / "notes"
        self.notes.touch()
        arguments = [brokers, prefix, str(folder / "spool"), str(self.notes)]
        self._command = [sys.executable, "-m", "tests.broker.settling", *arguments]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, cwd=CHECKOUT)

    def noted(self, what: str) -> list[str]:
        lines = (line.split(" ") for line in self.notes.read_text().splitlines())
        return [id for kind, id in lines if kind == what]

    def end(self, number: int) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(150)


async def test_killed_five_times_a_gateway_loses_nothing_that_was_settled(
    broker: Broker, prefix: str, tmp_path: Path
) -> None:
    control = await control_of(broker.bootstrap, prefix)
    settling = Settling(broker.bootstrap, prefix, tmp_path)
    assert broker.pid is not None
    for life in range(6):
        settling.start()
        await until(lambda: len(settling.noted("gateway")) > life, "it has started")  # noqa: B023
        before = len(settling.noted("after"))
        await control.decide(settling.noted("gateway")[-1], ("ela", 10**5, 10**5, 0))
        await until(lambda: len(settling.noted("after")) > before + 200, "requests run")  # noqa: B023
        if life == 5:
            assert settling.end(signal.SIGTERM) == 0
            break
        if life % 2:  # reports wait on disk too
            os.kill(broker.pid, signal.SIGSTOP)
            await asyncio.sleep(1.2)
        assert settling.end(signal.SIGKILL) == -signal.SIGKILL
        os.kill(broker.pid, signal.SIGCONT)
    records = [record.value for record in await control.records(control.topics.usage)]
    await control.producer.stop()
    found = counted(records)
    assert set(found) == set(settling.noted("gateway"))
    for reports in found.values():
        assert_whole(reports)
    told = Counter(id for reports in found.values() for id in ended(reports))
    assert set(told.values()) == {1}
    after, begun = set(settling.noted("after")), set(settling.noted("before"))
    assert len(after) > 1000
    assert after <= set(told) <= begun
    assert len(begun - after) <= 5
    totals = [report.totals for reports in found.values() for report in reports]
    assert sum(sum(row.tokens_uncached) for row in totals) == TOKENS[0] * len(told)
    assert sum(sum(row.tokens_out) for row in totals) == TOKENS[1] * len(told)


#  gateways   all ──── 3 s ───┬── first cut ──┬─── all cut ───┬─ healed ─── all again
#  the first  lease           │ lease │ floor ┆ floor         │ lease
#  others     lease           │ lease         │ lease │ floor │ lease
@dataclass(frozen=True)
class Lives:
    lease_ms: int
    floor_ms: int
    cut_s: float  # longer than a lease, and two shorter than a floor


SMALL = Lives(2_000, 120_000, 4.5)
FULL = Lives(15_000, 900_000, 300)
LOOK_S = 1.5  # at the end of a cut
CAPACITY = 10_000  # tokens/s
BASELINE = 3_000  # of gold
INTERVAL_S = 0.5
COST = 100  # tokens of a request
LIMITS = Limits(silent_intervals=6)
BUCKETS = 4 * 3  # four gateways: gold, tin and the pot


@dataclass
class Crowd:
    """More work than the pool can do, at four gateways; what was admitted, and when."""

    gateways: list[Gateway]
    admitted: list[tuple[float, int, str]] = field(default_factory=list)
    refused: Counter[tuple[int, str, str]] = field(default_factory=Counter)

    async def ask(self, place: int, tenant: str, stop: asyncio.Event) -> None:
        gateway = self.gateways[place]
        while not stop.is_set():
            request = gateway.request(tenant=tenant, pool=POOL, estimate=COST, timeout_s=0)
            try:
                async with request as call:
                    self.admitted.append((time.monotonic(), place, tenant))
                    call.settle(uncached=COST, out=0)
            except Refused as refused:
                self.refused[place, tenant, refused.reason] += 1
            await asyncio.sleep(0.01)

    def rate(self, since_s: float, places: set[int], tenant: str) -> float:
        """Tokens/s that these gateways have admitted since then."""
        times = [t for t, place, name in self.admitted if place in places and name == tenant]
        return COST * sum(t > since_s for t in times) / (time.monotonic() - since_s)

    def most_above(self, capacity: float) -> float:
        """The most that any stretch of time has above what the capacity gives in it."""
        most, lowest, spent = 0.0, 0.0, 0.0
        start_s = self.admitted[0][0]
        for at_s, _, _ in sorted(self.admitted):
            lowest = min(lowest, spent - capacity * (at_s - start_s))
            spent += COST
            most = max(most, spent - capacity * (at_s - start_s) - lowest)
        return most


@asynccontextmanager
async def running(gateways: Sequence[Gateway]) -> AsyncIterator[None]:
    for gateway in gateways:
        await gateway.start()
    try:
        yield
    finally:
        await asyncio.gather(*(gateway.stop() for gateway in gateways))


@pytest.mark.experiment
@pytest.mark.timeout(1200)
async def test_cut_off_gateways_use_their_own_share_then_their_floors_and_never_more(
    broker: Broker, doors: tuple[Door, Door], prefix: str, tmp_path: Path, full: bool
) -> None:
    lives = FULL if full else SMALL
    deployment = Deployment(broker.bootstrap, prefix, tmp_path)
    rules = spec(
        tenant("gold", "guaranteed", BASELINE),
        tenant("tin", "spot"),
        capacity=CAPACITY,
        interval_ms=int(INTERVAL_S * 1000),
        lease_ms=lives.lease_ms,
        floor_ms=lives.floor_ms,
    )
    await deployment.start("0")
    await deployment.send(rules)
    first, others = (Proxy(door.advertised, door.listens) for door in doors)
    ways = [doors[0], doors[1], doors[1], doors[1]]
    gateways = [gateway_of(f"127.0.0.1:{door.advertised}", prefix) for door in ways]
    crowd, stop = Crowd(gateways), asyncio.Event()
    async with first, others, running(gateways):
        assert all(await asyncio.gather(*(gateway.ready(150) for gateway in gateways)))
        asking = [
            asyncio.create_task(crowd.ask(place, name, stop))
            for place in range(4)
            for name in ("gold", "tin")
        ]
        await asyncio.sleep(3)
        await until(lambda: all(health_of(g, LIMITS).ok for g in gateways), "all is well")

        first.cut()
        await asyncio.sleep(lives.cut_s - LOOK_S)
        since_s = time.monotonic()
        await asyncio.sleep(LOOK_S)
        assert gateways[0].stats(POOL).phase == "floor"
        assert 0 < crowd.rate(since_s, {0}, "gold") <= BASELINE
        assert crowd.rate(since_s, {0}, "tin") == 0
        await until(lambda: gateways[1].stats(POOL).phase == "lease", "the others have leases")
        assert crowd.rate(since_s, {1, 2, 3}, "gold") > 0

        others.cut()
        await asyncio.sleep(lives.cut_s - LOOK_S)
        since_s = time.monotonic()
        await asyncio.sleep(LOOK_S)
        assert {gateway.stats(POOL).phase for gateway in gateways} == {"floor"}
        slack = (COST * 4 + BASELINE * INTERVAL_S) / LOOK_S
        assert 0 < crowd.rate(since_s, {0, 1, 2, 3}, "gold") <= BASELINE + slack
        assert crowd.rate(since_s, {0, 1, 2, 3}, "tin") == 0
        assert not any(health_of(gateway, LIMITS).ok for gateway in gateways)

        first.heal()
        others.heal()
        await until(lambda: not any(g.stats(POOL).spool_reports for g in gateways), "all is told")
        await until(lambda: all(g.stats(POOL).phase == "lease" for g in gateways), "leases again")
        await until(lambda: all(health_of(g, LIMITS).ok for g in gateways), "all is well again")
        await asyncio.sleep(1)
        stop.set()
        await asyncio.gather(*asking)
    records = [record.value for record in await deployment.read(deployment.topics.usage)]
    await deployment.stop()
    burst = CAPACITY * INTERVAL_S + BUCKETS * COST
    assert crowd.most_above(CAPACITY) <= burst
    found = counted(records)
    for place, gateway in enumerate(gateways):
        assert_whole(found[gateway.id])
        done = sum(at == place for _, at, _ in crowd.admitted)
        assert len(set(ended(found[gateway.id]))) == len(ended(found[gateway.id])) == done


async def test_a_blocked_loop_and_a_topic_that_was_made_anew_stop_nothing(
    broker: Broker, prefix: str
) -> None:
    control = await control_of(broker.bootstrap, prefix)
    async with gateway_of(broker.bootstrap, prefix) as gateway:

        async def goes_on(what: str) -> None:
            at_ms = await control.decide(gateway.id, ("ela", 1000, 1000, 10))
            await until(lambda: gateway.stats(POOL).applied_ms == at_ms, what)
            await until(lambda: not gateway.stats(POOL).spool_reports, what)
            await until(lambda: gateway.stats(POOL).tenants["ela"].remaining > 10, what)
            assert await run(gateway, "ela") == "done"

        await goes_on("at the start")
        time.sleep(4)  # noqa: ASYNC251 - a blocked loop is the point
        await goes_on("after the loop was blocked")
        await remade(control)
        await goes_on("after the topic was made anew")
    await control.producer.stop()


async def remade(control: Control) -> None:
    """The control topic is deleted and made again: its offsets start at 0."""
    from aiokafka.admin import AIOKafkaAdminClient

    from streams.config import Config
    from streams.topics import create_topics

    admin = AIOKafkaAdminClient(bootstrap_servers=control.brokers)
    await admin.start()
    await admin.delete_topics([control.topics.control])
    await admin.close()
    await create_topics(Config(topic_prefix=control.prefix, partitions=4), control.brokers)
