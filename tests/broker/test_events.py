"""The events worker on a real broker: the totals are right, whatever comes and whoever dies."""

import shutil
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from streams.tables import EVENT_TABLES, changelog_name
from tests.broker.deployment import Deployment, until
from tests.broker.gathering import COUNTED, Gatherers, Made, Sums, gathering, made, sums_of
from tests.broker.load import Load
from tests.broker.test_restore import make_anew
from tests.chained import Chained
from tests.unit.gateway.made import ask, obeying
from tokenweir.core.pool import COUNTERS
from tokenweir.events.read import from_json
from tokenweir.gateway import ledger, streams
from tokenweir.gateway.pool import PoolGate
from tokenweir.topics import partition_of
from tokenweir.wire import decode, encode

pytestmark = pytest.mark.broker

SDK, EVENTS = "chat", "plan"  # pools
CLOCKS_MS = 50  # by which the broker's clock may differ from a worker's
POISON = (b"\x00noise", b"[1]", b'{"pool":"plan","tenant":"gold","id":"x","prompt_tokens":NaN}')


async def tell(gatherers: Gatherers, requests: list[Made], pool: str, seed: int) -> None:
    """Send the requests' events with keys and without, as any partitioner might; every tenth event
    twice or more.
    """
    draw = Random(seed)
    for request in requests:
        keys = (request.id.encode(), request.tenant.encode(), pool.encode(), None)
        key = keys[sum(request.id.encode()) % 4]
        for content in request.events(pool):
            for _ in range(draw.choice((1,) * 9 + (draw.choice((2, 5)),))):
                home = draw.randrange(4) if key is None or draw.random() < 0.2 else None
                await gatherers.send(content, key, home)


def through_the_sdk(requests: list[Made]) -> list[bytes]:
    """The same requests through a gate that refuses nothing, cut each hundred."""
    gate = obeying(changes={"mode": "shadow"})
    reports: list[bytes] = []
    for number, request in enumerate(requests):
        settle(gate, request, number)
        if number % 100 == 99:
            reports += [cut.aged(number) for cut in gate.cut(number)]
    return reports


def settle(gate: PoolGate, made: Made, now_ms: int) -> None:
    request = ask(gate, now_ms, made.tenant, 1_000, user="", id=made.id)
    assert request.state == "admitted"
    for before, after in zip((0, *made.parts), made.parts, strict=False):
        streams.produce(gate, request, 0, 0, after - before)
    ledger.settle(gate, request, now_ms, made.uncached, made.cached, made.out, error=made.error)


def folded(state: Chained) -> Sums:
    """What the control plane has counted for a pool."""
    sums = Sums()
    for tenant, row in zip(state.pool.terms.names, state.pool.totals, strict=True):
        for name in COUNTED:
            sums[tenant, name] = int(row[COUNTERS.index(name)])
    return +sums


async def let_time_pass(deployment: Deployment, gates: list[PoolGate]) -> None:
    """Reports that say nothing."""
    for gate in gates:
        for cut in gate.cut(0):
            await deployment.send_raw(gate.pool.encode(), cut.aged(0))


async def test_2000_requests_give_the_control_plane_the_same_totals_as_events_and_from_the_sdk(
    brokers: str, prefix: str, tmp_path: Path
) -> None:
    """67 too: events lie wherever a producer's partitioner puts them."""
    requests = made(2_000, seed=1)
    wanted = sums_of(requests)
    async with gathering(brokers, prefix, tmp_path, "0") as gatherers:
        deployment = gatherers.deployment
        await Load(deployment, (SDK, EVENTS)).apply()
        quiet = [PoolGate(pool, "quiet") for pool in (SDK, EVENTS)]

        async def decided() -> bool:
            await let_time_pass(deployment, quiet)
            journal = await deployment.journal()
            return {entry.pool for entry in journal} == {SDK, EVENTS}

        await until(decided, "specs in effect: their tenants are known")
        for value in through_the_sdk(requests):
            await deployment.send_raw(SDK.encode(), value)
        await tell(gatherers, requests, EVENTS, seed=2)
        for number, poison in enumerate(POISON):
            await gatherers.send(poison, b"gold", number)
        await gatherers.reported(EVENTS, wanted)

        async def equal() -> bool:
            await let_time_pass(deployment, quiet)
            deployment.assert_alive()
            states = await deployment.states()
            return all(pool in states and folded(states[pool]) == wanted for pool in (SDK, EVENTS))

        await until(equal, "the same totals in both pools")
        letters = await deployment.letters()
        assert {letter.value for letter in letters} == set(POISON)
        assert {letter.reader for letter in letters} == {"events"}


async def test_19_55_56_killed_and_robbed_of_its_tables_every_event_is_charged_once(
    brokers: str, prefix: str, tmp_path: Path
) -> None:
    """One of two workers is killed, then the one that is left, which finds nothing stored: the log
    is gathered again with the same sequences, and R1 drops the repeats.
    """
    requests = made(1_500, seed=3)
    first, second = requests[:800], requests[800:]
    async with gathering(brokers, prefix, tmp_path) as gatherers:
        gatherers.work("1")
        await tell(gatherers, first, EVENTS, seed=1)
        await gatherers.begun(EVENTS, 100)
        gatherers.workers["0"].kill()
        await tell(gatherers, [*second[:300], *first[-50:]], EVENTS, seed=2)
        await gatherers.begun(EVENTS, 900)
        gatherers.workers["1"].kill()
        await forget(gatherers, tmp_path)
        await tell(gatherers, [*second[300:], *first[:50]], EVENTS, seed=3)
        gatherers.work("0")
        await gatherers.reported(EVENTS, sums_of(requests))
        usage = await gatherers.deployment.read(gatherers.deployment.topics.usage)
        gateways = {decode(record.value).gateway for record in usage}
        assert gateways <= {f"events-{home}" for home in range(4)}


async def forget(gatherers: Gatherers, data: Path) -> None:
    """RocksDB and both changelogs are gone."""
    deployment = gatherers.deployment
    for worker in gatherers.workers:
        shutil.rmtree(data / f"events-{worker}", ignore_errors=True)
    for table in EVENT_TABLES:
        await make_anew(deployment, changelog_name(deployment.config, table, "events"))


async def test_an_age_puts_usage_where_it_happened_and_avro_and_metrics_are_there_too(
    brokers: str, prefix: str, tmp_path: Path
) -> None:
    async with gathering(brokers, prefix, tmp_path) as gatherers:
        [request] = made(1, seed=9)
        first, *_, last = request.events(EVENTS)
        await gatherers.send({**first, "age_ms": 5_000}, b"k")
        await gatherers.reported(EVENTS, Sums({
            (request.tenant, "tokens_uncached"): request.uncached,
            (request.tenant, "tokens_cached"): request.cached,
            (request.tenant, "tokens_out"): 100,
        }))  # fmt: skip
        [record] = [
            record
            for record in await gatherers.deployment.read(gatherers.deployment.topics.usage)
            if decode(record.value).requests
        ]
        report = decode(record.value)
        [event] = [
            event
            for event in await gatherers.deployment.read(gatherers.deployment.topics.events)
            if event.key == b"k"
        ]
        happened_ms = record.timestamp - report.age_ms - report.totals.age_ms[0]
        # The event was 5 s old when the log had it, and older when the report was cut.
        assert event.timestamp - 5_000 - CLOCKS_MS <= happened_ms <= record.timestamp - 5_000
        avro = replace(from_json(last).event, id="avro")
        await gatherers.send(encode(avro), b"k")
        await gatherers.reported(EVENTS, sums_of([request]))
        await gatherers.send({**last, "id": "another"}, b"k")
        await gatherers.send({**last, "id": "another"}, b"k")

        async def counted() -> bool:
            return await gatherers.counts() == {
                "taken": 2, "unstable_id": 1, "repeat": 1
            }  # fmt: skip

        await until(counted, "metrics that tell of all four")
        assert record.partition == partition_of(EVENTS, 4)
