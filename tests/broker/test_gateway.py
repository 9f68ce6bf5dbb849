"""The gateway on a real broker, under a control plane that the test plays."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from streams.config import Config
from streams.topics import create_topics
from tests.unit.gateway.made import EPOCH_MS, POOL, Row, decision, leases, roster
from tokenweir.gateway import Gateway, Refused
from tokenweir.records.journal import DeadLetter
from tokenweir.records.usage import RequestsBlock, UsageReport
from tokenweir.topics import Topics, leases_key, partition_of, pool_key, roster_key
from tokenweir.wire import decode, decode_as, encode

pytestmark = pytest.mark.broker
PARTITIONS = 4
DEADLINE_S = 150  # of waits, for machines that are slow or busy
LEASE_MS, FLOOR_MS = 600_000, 900_000  # no test waits for their ends


async def until(true: Callable[[], object], what: str, deadline_s: float = DEADLINE_S) -> None:
    end_s = time.monotonic() + deadline_s
    while not true():
        assert time.monotonic() < end_s, f"not within {deadline_s} s: {what}"
        await asyncio.sleep(0.02)


@dataclass
class Control:
    """Plays the control plane: publishes what the test says, a decision a call."""

    brokers: str
    prefix: str
    producer: AIOKafkaProducer

    @property
    def topics(self) -> Topics:
        return Topics(self.prefix)

    async def restart(self) -> None:
        self.producer = AIOKafkaProducer(bootstrap_servers=self.brokers)
        await self.producer.start()

    async def put(self, key: bytes, value: bytes | None) -> None:
        partition = partition_of(POOL, PARTITIONS)
        await self.producer.send_and_wait(self.topics.control, value, key, partition)

    async def decide(self, gateway: str, *rows: Row, **changes: Any) -> int:
        """Leases, then the decision; returns its boundary, a little behind the true time."""
        at_ms = int(time.time() * 1000) - 100 - EPOCH_MS
        life = {"expires_ms": at_ms + LEASE_MS, "floor_expires_ms": at_ms + FLOOR_MS}
        await self.put(roster_key(POOL), encode(roster()))
        lease = leases(gateway, *rows, at_ms=at_ms, **life)  # type: ignore[arg-type]
        await self.put(leases_key(POOL, gateway, 0), encode(lease))
        await self.put(pool_key(POOL), encode(decision(at_ms, **changes)))
        return at_ms + EPOCH_MS

    async def records(self, topic: str) -> list[Any]:
        """Everything that lies in a topic now."""
        found = []
        async with AIOKafkaConsumer(bootstrap_servers=self.brokers) as consumer:
            places = [TopicPartition(topic, p) for p in range(PARTITIONS)]
            consumer.assign(places)
            await consumer.seek_to_beginning()
            ends = await consumer.end_offsets(places)
            for place, end in ends.items():
                while await consumer.position(place) < end:
                    batches = await consumer.getmany(place, timeout_ms=500)
                    found += [record for batch in batches.values() for record in batch]
        return found

    async def reports(self) -> list[UsageReport]:
        """What the pool's log counts: a sequence that is not above the last is a repeat (R1)."""
        found = [decode_as(UsageReport, r.value) for r in await self.records(self.topics.usage)]
        counted: list[UsageReport] = []
        for report in found:
            if not counted or report.sequence > counted[-1].sequence:
                counted.append(report)
        return counted

    async def until(self, true: Callable[[list[UsageReport]], object], what: str) -> None:
        """Wait for what reports tell."""
        end_s = time.monotonic() + DEADLINE_S
        while not true(await self.reports()):
            assert time.monotonic() < end_s, f"not within {DEADLINE_S} s: {what}"
            await asyncio.sleep(0.1)


async def control_of(brokers: str, prefix: str) -> Control:
    await create_topics(Config(topic_prefix=prefix, partitions=PARTITIONS), brokers)
    producer = AIOKafkaProducer(bootstrap_servers=brokers)
    await producer.start()
    return Control(brokers, prefix, producer)


@pytest.fixture
async def control(brokers: str, prefix: str) -> AsyncIterator[Control]:
    played = await control_of(brokers, prefix)
    yield played
    await played.producer.stop()


def gateway_of(brokers: str, prefix: str) -> Gateway:
    return Gateway(brokers=brokers, name="edge", pools=[POOL], prefix=prefix)


async def run(gateway: Gateway, tenant: str, out: int = 5) -> str:
    """One request, from asking to settling."""
    try:
        async with gateway.request(tenant=tenant, user="bo", pool=POOL, estimate=10) as call:
            await asyncio.sleep(0)
            call.settle(uncached=5, out=out)
    except Refused as refused:
        return refused.reason
    return "done"


async def test_a_gateway_obeys_its_leases_and_reports_what_it_used(control: Control) -> None:
    gateway = gateway_of(control.brokers, control.prefix)
    async with gateway:
        assert not await gateway.ready(0)
        at_ms = await control.decide(gateway.id, ("ela", 100, 100, 10))
        assert await gateway.ready(DEADLINE_S)
        await until(
            lambda: gateway.stats(POOL).tenants["ela"].remaining == 100, "the bucket is full"
        )
        began_s = time.monotonic()
        ends = await asyncio.gather(*(run(gateway, "ela", out=4) for _ in range(100)))
        filled = 100 * (time.monotonic() - began_s)  # the bucket goes on filling
        done = ends.count("done")
        assert 10 <= done <= (100 + filled + 10) / 9  # the last may owe its estimate
        assert set(ends) == {"done", "tokens"}
        assert gateway.stats(POOL).applied_ms == at_ms
    reports = await control.reports()
    assert [report.sequence for report in reports] == list(range(1, len(reports) + 1))
    assert [report.closing for report in reports] == [False] * (len(reports) - 1) + [True]
    assert sum(sum(report.totals.requests) for report in reports) == done
    assert sum(sum(report.totals.tokens_out) for report in reports) == 4 * done
    assert sum(sum(report.totals.refused) for report in reports) == 100 - done
    assert max(report.applied for report in reports) == at_ms


async def test_a_tenant_without_a_lease_is_reported_at_once_and_a_core_one_waits(
    control: Control,
) -> None:
    slow = {"interval_ms": 600_000}  # a report is due every five minutes only
    async with gateway_of(control.brokers, control.prefix) as gateway:
        await until(lambda: gateway.stats(POOL).pool_ms, "a report is acknowledged")
        await control.decide(gateway.id, **slow)
        assert await gateway.ready(DEADLINE_S)
        waiting = asyncio.create_task(run(gateway, "gua"))
        await until(lambda: gateway.stats(POOL).waiting == 1, "it waits")
        await control.until(lambda told: any(sum(r.totals.queued) for r in told), "it is told")
        await control.decide(gateway.id, ("gua", 1000, 1000, 0), **slow)
        assert await waiting == "done"


async def test_what_cannot_be_read_is_a_dead_letter_and_the_gateway_goes_on(
    control: Control,
) -> None:
    async with gateway_of(control.brokers, control.prefix) as gateway:
        await control.put(pool_key(POOL), b"\xc3\x01nonsense")
        await control.put(b"other/pool/0", b"not for us")
        await control.put(pool_key(POOL), encode(replace(decision(), pool="other")))
        await control.decide(gateway.id, ("ela", 100, 100, 0))
        assert await gateway.ready(DEADLINE_S)
        topic = control.topics.dead_letter
        letters: list[DeadLetter] = []
        while len(letters) < 2:
            letters = [decode_as(DeadLetter, r.value) for r in await control.records(topic)]
    assert [letter.key for letter in letters] == [POOL.encode()] * 2
    assert {letter.reader for letter in letters} == {f"gateway {gateway.id}"}
    assert letters[0].value == b"\xc3\x01nonsense"
    assert "its pool is 'other'" in letters[1].reason


async def test_a_cancelled_stream_is_charged_what_it_produced(control: Control) -> None:
    async with gateway_of(control.brokers, control.prefix) as gateway:
        await control.decide(gateway.id, ("ela", 1000, 1000, 0))
        assert await gateway.ready(DEADLINE_S)
        await until(lambda: gateway.stats(POOL).tenants["ela"].remaining, "there are tokens")

        async def stream() -> None:
            request = gateway.request(tenant="ela", pool=POOL, input_tokens=45, max_tokens=400)
            async with request as call:
                while True:
                    call.produced(5)
                    await asyncio.sleep(0.05)

        streaming = asyncio.create_task(stream())
        await control.until(lambda told: sum(bool(r.requests) for r in told) >= 2, "two parts")
        streaming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await streaming
        spent = gateway.stats(POOL).tenants["ela"].spent
    blocks = [decode_as(RequestsBlock, r.requests) for r in await control.reports() if r.requests]
    statuses = [status for block in blocks for status in block.status]
    assert len(statuses) >= 3
    assert statuses == ["part"] * (len(statuses) - 1) + ["cancelled"]
    assert blocks[-1].estimated[-1] is True
    out = sum(sum(block.tokens_out) for block in blocks)
    assert sum(sum(block.tokens_uncached) for block in blocks) == 45
    assert spent == 45 + out


async def test_a_request_that_runs_too_long_is_stopped_and_expires(control: Control) -> None:
    async with gateway_of(control.brokers, control.prefix) as gateway:
        await control.decide(gateway.id, ("ela", 1000, 1000, 0), longest_request_ms=300)
        assert await gateway.ready(DEADLINE_S)
        await until(lambda: gateway.stats(POOL).tenants["ela"].remaining, "there are tokens")
        with pytest.raises(TimeoutError, match="ran longer than"):
            async with gateway.request(tenant="ela", pool=POOL, estimate=10):
                await asyncio.sleep(30)
        assert gateway.stats(POOL).in_flight == 0


async def test_no_report_is_lost_while_the_broker_is_away(tmp_path: Path, prefix: str) -> None:
    from streams.broker import Broker

    broker = Broker(tmp_path)
    bootstrap = await asyncio.to_thread(broker.start)
    control = await control_of(bootstrap, prefix)
    await control.producer.stop()
    await asyncio.to_thread(broker.stop)

    gateway = gateway_of(bootstrap, prefix)
    async with gateway:
        # Without a broker, and so without a decision, the safe answer is no.
        assert await run(gateway, "ela") == "no_decision"
        await until(lambda: "cannot reach Kafka" in gateway.stats(POOL).state, "it says so")
        await asyncio.to_thread(broker.start)
        await control.restart()
        await control.decide(gateway.id, ("ela", 10**6, 10**6, 10**6))
        assert await gateway.ready(DEADLINE_S)

        stop = asyncio.Event()

        async def load() -> int:
            done = 0
            while not stop.is_set():
                done += await run(gateway, "ela") == "done"
                await asyncio.sleep(0.005)
            return done

        loading = asyncio.create_task(load())
        await asyncio.sleep(1)
        await asyncio.to_thread(broker.kill)
        await until(lambda: gateway.stats(POOL).spool_reports > 3, "reports wait in the spool")
        await asyncio.to_thread(broker.start)
        await until(lambda: gateway.stats(POOL).spool_reports == 0, "they have gone out")
        stop.set()
        done = await loading
        at_ms = await control.decide(gateway.id, ("ela", 100, 100, 100))
        await until(lambda: gateway.stats(POOL).applied_ms == at_ms, "decisions are followed again")
        assert gateway.stats(POOL).lost_reports == 0
    await control.producer.stop()
    reports = await control.reports()
    await asyncio.to_thread(broker.stop)
    assert [report.sequence for report in reports] == list(range(1, len(reports) + 1))
    assert sum(sum(report.totals.requests) for report in reports) == done
    assert sum(sum(report.totals.tokens_out) for report in reports) == 5 * done
    blocks = [decode(report.requests) for report in reports if report.requests]
    assert len({id for block in blocks for id in block.id}) == done + 1  # and the refused one


async def test_closing_ends_in_time_when_the_broker_is_gone(
    tmp_path: Path, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All pools have the same seconds, and not each its own."""
    from streams.broker import Broker

    monkeypatch.setattr("tokenweir.gateway.gateway.CLOSING_S", 2)
    broker = Broker(tmp_path)
    bootstrap = await asyncio.to_thread(broker.start)
    control = await control_of(bootstrap, prefix)
    pools = [POOL, *(f"batch-{number}" for number in range(49))]
    gateway = Gateway(brokers=bootstrap, name="edge", pools=pools, prefix=prefix)
    await gateway.start()
    await control.decide(gateway.id, ("ela", 100, 100, 10))
    await until(lambda: gateway.stats(POOL).applied_ms, "a decision is obeyed")
    await control.producer.stop()
    await asyncio.to_thread(broker.kill)
    await until(lambda: gateway.stats(POOL).spool_reports, "a report is not acknowledged")
    started_s = time.monotonic()
    await gateway.stop()
    assert 1.9 < time.monotonic() - started_s < 50
    assert await run(gateway, "ela") == "closing"
