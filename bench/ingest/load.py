"""The load of all lanes: the same requests, as reports or as one record each."""

import asyncio
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from aiokafka import AIOKafkaProducer

from tokenweir.records.spec import (
    CLASSES,
    BreakerTerms,
    Capacity,
    ClassTerms,
    Entitlement,
    PoolSpec,
    ReclaimTerms,
    TierTerms,
    TokenWeights,
    TuningTerms,
    WeightTerms,
)
from tokenweir.records.usage import RequestsBlock, Totals, UsageReport
from tokenweir.topics import pool_key
from tokenweir.wire import encode

TENANTS = 100
GATEWAYS = 4
POOL = "bench"
INTERVAL_MS = 250
INTERVALS = 16
ONE = 1_000_000
# Of so many different reports the load repeats the contents: making them is not what is measured.
DISTINCT = 20


@dataclass(frozen=True, slots=True)
class Request:
    """One request of the load."""

    tenant: str
    uncached: int
    out: int


def requests(count: int, seed: int) -> list[Request]:
    """Requests with a fixed seed; every tenant is as busy as the others."""
    draw = random.Random(seed)
    return [
        Request(
            f"tenant-{draw.randrange(TENANTS):03}", draw.randrange(50, 4000), draw.randrange(500)
        )
        for _ in range(count)
    ]


def spec() -> PoolSpec:
    """A pool in which 100 tenants of four classes have a claim, decided every 250 ms."""
    claims = [
        Entitlement(
            f"tenant-{place:03}", CLASSES[1 + place % 4], False, 1_000_000, None, None, None, 1000,
            None, {},
        )
        for place in range(TENANTS)
    ]  # fmt: skip
    classes = [
        ClassTerms(name, 100 * ONE, None, None, ONE // 2, 1000, "floor", "none", "none")
        for name in CLASSES
    ]
    return PoolSpec(
        pool=POOL,
        version=1,
        replaces=0,
        mode="enforce",
        interval_ms=INTERVAL_MS,
        window_s=60,
        grace_s=10,
        lease_ms=15_000,
        floor_ms=600_000,
        longest_request_ms=600_000,
        capacity=Capacity(1_000_000_000, None, None),
        burst=None,
        token_weights=TokenWeights(ONE, ONE, ONE),
        ceiling=950_000,
        pots=50_000,
        tiers=TierTerms(700_000, 900_000, ONE, 50_000, 2, 10_000),
        alpha=800_000,
        ewma=300_000,
        debt_gain=100_000,
        weights=WeightTerms(131_000, 100_000, 4 * ONE),
        classes=classes,
        unknown_class="spot",
        entitlements=claims,
        breaker=BreakerTerms("borrowers", 10_000, 300_000, 50_000, 100_000),
        reclaim=ReclaimTerms(300_000, 5_000, 60_000),
        tuning=TuningTerms(0, 300_000, 0, 950_000, ONE),
        zones=(),
        schedule=(),
        source="",
    )


def reports(count: int, size: int) -> Iterator[UsageReport]:
    """So many reports of `size` requests each, from four gateways in turn."""
    contents = [_content(requests(size, seed)) for seed in range(DISTINCT)]
    for number in range(count):
        totals, block = contents[number % DISTINCT]
        yield UsageReport(
            pool=POOL,
            gateway=f"gateway-{number % GATEWAYS}",
            sequence=number // GATEWAYS + 1,
            applied=0,
            closing=False,
            more=False,
            age_ms=0,
            totals=totals,
            requests=block,
        )


async def produce_reports(brokers: str, topic: str, count: int, size: int) -> None:
    """Write the reports of a lane, and the spec in front of them."""
    values = [encode(spec()), *(encode(report) for report in reports(count, size))]
    # Over several intervals of log time: what is measured lies between two decisions.
    step = -(-len(values) // INTERVALS)
    for first in range(0, len(values), step):
        slice_ = values[first : first + step]
        await _produce(brokers, topic, [(pool_key(POOL), value) for value in slice_])
        await asyncio.sleep(INTERVAL_MS / 1000)
    # One more, an interval later: it closes the last interval.
    await asyncio.sleep(INTERVAL_MS / 1000)
    last = replace(next(reports(1, size)), gateway="last")
    await _produce(brokers, topic, [(pool_key(POOL), encode(last))])


async def produce_requests(brokers: str, topic: str, count: int) -> None:
    """Write one JSON record a request, keyed by tenant."""
    records = [
        (
            request.tenant.encode(),
            json.dumps(
                {"tenant": request.tenant, "input": request.uncached, "output": request.out}
            ).encode(),
        )
        for request in requests(count, 0)
    ]
    await _produce(brokers, topic, records)


async def _produce(brokers: str, topic: str, records: Sequence[tuple[bytes, bytes]]) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=brokers, linger_ms=5, max_batch_size=1 << 20)
    await producer.start()
    try:
        sent = [await producer.send(topic, value, key=key) for key, value in records]
        await asyncio.gather(*sent)
    finally:
        await producer.stop()


def _content(batch: Sequence[Request]) -> tuple[Totals, bytes]:
    names = sorted({request.tenant for request in batch})
    place = {name: number for number, name in enumerate(names)}
    rows = range(len(names))
    count, uncached, out = [0] * len(names), [0] * len(names), [0] * len(names)
    for request in batch:
        row = place[request.tenant]
        count[row] += 1
        uncached[row] += request.uncached
        out[row] += request.out
    totals = Totals(
        names=names,
        tenant=list(rows),
        user=list(rows),
        age_ms=[100] * len(names),
        requests=count,
        errors=[],
        tokens_uncached=uncached,
        tokens_cached=[],
        tokens_out=out,
        refused=[],
        refused_tokens=[],
        wait_ms=count,
        in_flight=count,
        sequences=count,
        kv_bytes=[],
        held_tokens=out,
        queued=[],
        queued_tokens=[],
    )
    return totals, encode(block(batch))


def block(batch: Sequence[Request]) -> RequestsBlock:
    """The requests of one report, in columns."""
    names = ["", *sorted({request.tenant for request in batch}), "model", "chat"]
    place = {name: number for number, name in enumerate(names)}
    rows = len(batch)
    tenant = [place[request.tenant] for request in batch]
    return RequestsBlock(
        names=names,
        id=[f"{number:032x}" for number in range(rows)],
        attempt=[1] * rows,
        tenant=tenant,
        user=tenant,
        model=[place["model"]] * rows,
        operation=[place["chat"]] * rows,
        provider_tier=[],
        reason=[],
        status=["done"] * rows,
        flow=["online"] * rows,
        priority=[2] * rows,
        tokens_uncached=[request.uncached for request in batch],
        tokens_cache_write=[],
        tokens_cached=[],
        tokens_out=[request.out for request in batch],
        refused_tokens=[],
        estimated=[False] * rows,
        error=[False] * rows,
        kv_bytes=[],
        wait_ms=[3] * rows,
        duration_ms=[900] * rows,
        age_ms=[100] * rows,
        decision=[],
    )
