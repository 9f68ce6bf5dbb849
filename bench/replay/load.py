"""The log of both lanes: the same requests, in reports of half a second or one record each."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from bench.ingest import load as ingest
from tokenweir.records.spec import PoolSpec
from tokenweir.records.usage import RequestsBlock, Totals, UsageReport
from tokenweir.topics import pool_key
from tokenweir.usage_log import Message
from tokenweir.wire import encode

POOL, PARTITIONS = "bench", 8
TENANTS, GATEWAYS = 100, 10
RATE = 1_000  # requests a second, over all gateways
PERIOD_MS = 500  # of a gateway's reports
START = 1_800_000_000_000
# Of so many different contents the reports are made: making them is not what is measured.
DISTINCT = 200


@dataclass(frozen=True, slots=True)
class Request:
    """One request as its gateway settled it."""

    tenant: str
    uncached: int
    out: int
    wait_ms: int


@dataclass(frozen=True, slots=True)
class Content:
    """What one report tells: its requests, and the same in the wire's form."""

    requests: Sequence[Request]
    totals: Totals
    block: bytes


def spec() -> PoolSpec:
    """A pool that is decided every second, with 100 entitled tenants of four classes."""
    return replace(ingest.spec(), pool=POOL, interval_ms=1_000)


def contents(per_report: int = RATE * PERIOD_MS // 1000 // GATEWAYS) -> list[Content]:
    """Different reports; half of all requests are of a tenth of the tenants."""
    dice = random.Random(7)
    made = []
    for _ in range(DISTINCT):
        requests = [_request(dice) for _ in range(per_report)]
        made.append(Content(requests, _totals(requests), encode(_block(requests))))
    return made


def _request(dice: random.Random) -> Request:
    tenant = dice.randrange(TENANTS // 10 if dice.random() < 0.5 else TENANTS)
    wait_ms = dice.choice((0, 0, 0, 40))
    return Request(f"tenant-{tenant:03}", dice.randrange(50, 900), dice.randrange(400), wait_ms)


def schedule(seconds: int) -> Iterator[tuple[int, int, int]]:
    """Append time, gateway and sequence of every report; gateways report in turn."""
    step = PERIOD_MS // GATEWAYS
    for number in range(seconds * 1000 // PERIOD_MS * GATEWAYS):
        yield START + number * step, number % GATEWAYS, number // GATEWAYS + 1


def messages(made: Sequence[Content], seconds: int) -> Iterator[Message]:
    """The log: the spec, then the reports; gateways obey the decision of the second before."""
    yield Message(0, START - 900, pool_key(POOL), encode(spec()))
    for number, (at_ms, gateway, sequence) in enumerate(schedule(seconds)):
        content = made[number % len(made)]
        report = _report(content.totals, content.block, gateway, sequence, at_ms)
        yield Message(number + 1, at_ms, pool_key(POOL), encode(report))


def single_messages(made: Sequence[Content], seconds: int) -> Iterator[Message]:
    """The same requests as a record each: a report is complete when its last record is there."""
    yield Message(0, START - 900, pool_key(POOL), encode(spec()))
    counts = [0] * GATEWAYS
    for number, (at_ms, gateway, _) in enumerate(schedule(seconds)):
        requests = made[number % len(made)].requests
        for place, request in enumerate(requests, 1):
            counts[gateway] += 1
            more = place < len(requests)
            report = _report(_totals([request]), b"", gateway, counts[gateway], at_ms, more=more)
            yield Message(sum(counts), at_ms, pool_key(POOL), encode(report))


def _report(
    totals: Totals, block: bytes, gateway: int, sequence: int, at_ms: int, *, more: bool = False
) -> UsageReport:
    return UsageReport(
        pool=POOL,
        gateway=f"gateway-{gateway}",
        sequence=sequence,
        applied=max(START, at_ms // 1000 * 1000 - 1000) if at_ms >= START + 1000 else 0,
        closing=False,
        more=more,
        age_ms=3,
        totals=totals,
        requests=block,
    )


def _totals(requests: Sequence[Request]) -> Totals:
    names = sorted({request.tenant for request in requests})
    place = {name: row for row, name in enumerate(names)}
    rows = range(len(names))
    columns = [[0] * len(names) for _ in range(4)]
    for request in requests:
        values = (1, request.uncached, request.out, request.wait_ms)
        for column, value in zip(columns, values, strict=True):
            column[place[request.tenant]] += value
    count, uncached, out, wait_ms = columns
    zero: Sequence[int] = []
    return Totals(
        names=names,
        tenant=list(rows),
        user=list(rows),
        age_ms=zero,
        requests=count,
        errors=zero,
        tokens_uncached=uncached,
        tokens_cached=zero,
        tokens_out=out,
        refused=zero,
        refused_tokens=zero,
        wait_ms=wait_ms,
        in_flight=count,
        sequences=count,
        kv_bytes=zero,
        held_tokens=out,
        queued=zero,
        queued_tokens=zero,
    )


def _block(requests: Sequence[Request]) -> RequestsBlock:
    batch = [ingest.Request(each.tenant, each.uncached, each.out) for each in requests]
    return ingest.block(batch)
