"""The asyncio shell without Kafka: the core hears what the test says, on the test's clock."""

import asyncio

import pytest

from tests.unit.gateway.made import EPOCH_MS, POOL, Row, give
from tokenweir.errors import BadInput
from tokenweir.gateway import AlreadyEnded, Gateway, Refused
from tokenweir.gateway.pool import PoolGate


class Clock:
    now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def gateway(clock: Clock) -> Gateway:
    return Gateway(brokers="nowhere:1", name="edge", pools=[POOL], clock=clock)


def gate_of(gateway: Gateway) -> PoolGate:
    return gateway._lanes[POOL].gate


def lease(gateway: Gateway, clock: Clock, *rows: Row) -> None:
    """Leases from now on, a second old, so that their buckets are full."""
    gate_of(gateway).acknowledged(EPOCH_MS + clock.now_ms, clock.now_ms, clock.now_ms)
    give(gate_of(gateway), clock.now_ms, *rows)
    clock.now_ms += 1000


async def test_100_concurrent_requests_of_1000_against_10_000_admit_exactly_10(
    gateway: Gateway, clock: Clock
) -> None:
    lease(gateway, clock, ("ela", 10_000, 10_000, 0))

    async def one() -> str:
        try:
            async with gateway.request(tenant="ela", pool=POOL, estimate=1000) as call:
                await asyncio.sleep(0)
                call.settle(uncached=1000, out=0)
        except Refused as refused:
            return refused.reason
        return "done"

    ends = await asyncio.gather(*(one() for _ in range(100)))
    assert (ends.count("done"), ends.count("tokens")) == (10, 90)


async def test_a_refusal_says_why_when_and_by_which_decision(
    gateway: Gateway, clock: Clock
) -> None:
    lease(gateway, clock, ("ela", 1000, 1000, 0))
    await gateway.request(tenant="ela", pool=POOL, estimate=3000).__aenter__()
    with pytest.raises(Refused, match="'ela' was refused") as caught:
        await gateway.request(tenant="ela", pool=POOL, estimate=70).__aenter__()
    refused = caught.value
    assert (refused.reason, refused.status, refused.needed) == ("tokens", 429, 70)
    assert refused.retry_after_s == 2.001
    assert refused.decision_id == f"{POOL}@{EPOCH_MS}"


async def test_before_any_decision_the_service_is_at_fault(gateway: Gateway) -> None:
    with pytest.raises(Refused) as caught:
        await gateway.request(tenant="ela", pool=POOL, estimate=1).__aenter__()
    assert (caught.value.reason, caught.value.status) == ("no_decision", 503)
    assert "nothing is obeyed" in gateway.stats(POOL).state


async def test_a_waiter_that_is_cancelled_leaves_nothing(gateway: Gateway, clock: Clock) -> None:
    lease(gateway, clock, ("gua", 1000, 1000, 0))
    first = gateway.request(tenant="gua", pool=POOL, estimate=3000)
    async with first:
        waiting = asyncio.create_task(
            gateway.request(tenant="gua", pool=POOL, estimate=10).__aenter__()
        )
        await asyncio.sleep(0)
        assert gateway.stats(POOL).waiting == 1
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert gateway.stats(POOL).waiting == 0
        first.settle(uncached=1, out=0)
    assert gateway.stats(POOL).tenants["gua"].remaining == 999


async def test_a_waiter_that_is_cancelled_as_it_is_admitted_returns_everything(
    gateway: Gateway, clock: Clock
) -> None:
    lease(gateway, clock, ("gua", 1000, 1000, 0))
    first = gateway.request(tenant="gua", pool=POOL, estimate=3000)
    async with first:
        waiting = asyncio.create_task(
            gateway.request(tenant="gua", pool=POOL, estimate=10).__aenter__()
        )
        await asyncio.sleep(0)
        first.settle(uncached=0, out=0)
        gateway._lanes[POOL]._serve()
        assert gateway.stats(POOL).in_flight == 1
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert gateway.stats(POOL).in_flight == 0
    assert gateway.stats(POOL).tenants["gua"].remaining == 1000


async def test_a_settled_request_wakes_who_waits(gateway: Gateway, clock: Clock) -> None:
    lease(gateway, clock, ("gua", 1000, 1000, 0))
    async with gateway.request(tenant="gua", pool=POOL, estimate=3000) as first:
        request = gateway.request(tenant="gua", pool=POOL, estimate=10)
        waiting = asyncio.create_task(request.__aenter__())
        await asyncio.sleep(0)
        first.settle(uncached=10, out=0)
        await asyncio.wait_for(waiting, 60)
    assert request.state == "admitted"


async def test_an_exception_leaves_a_marked_estimate_and_an_error(
    gateway: Gateway, clock: Clock
) -> None:
    lease(gateway, clock, ("ela", 1000, 1000, 0))
    with pytest.raises(ValueError, match="backend"):
        async with gateway.request(tenant="ela", pool=POOL, estimate=70):
            raise ValueError("backend")
    row = gate_of(gateway).rows[-1]
    assert (row[7], row[8], row[11], row[16], row[17]) == ("ValueError", "done", 70, True, True)


async def test_an_explicit_zero_is_zero_and_a_missing_one_is_estimated(
    gateway: Gateway, clock: Clock
) -> None:
    lease(gateway, clock, ("ela", 1000, 1000, 0))
    for usage in ({"uncached": 0, "out": 0}, {"uncached": 45}, {}):
        async with gateway.request(tenant="ela", pool=POOL, input_tokens=50, max_tokens=20) as call:
            call.settle(**usage)  # type: ignore[arg-type]
    rows = [(row[11], row[14], row[16]) for row in gate_of(gateway).rows]
    assert rows == [(0, 0, False), (45, 20, True), (50, 20, True)]


async def test_settling_twice_is_an_error(gateway: Gateway, clock: Clock) -> None:
    lease(gateway, clock, ("ela", 1000, 1000, 0))
    async with gateway.request(tenant="ela", pool=POOL, estimate=70) as call:
        call.settle(uncached=1, out=1)
        with pytest.raises(AlreadyEnded):
            call.settle(uncached=1, out=1)
        with pytest.raises(AlreadyEnded):
            call.cancel()
    assert len(gate_of(gateway).rows) == 1


@pytest.mark.parametrize("bad", [-5, 1.5, "10", True, float("nan"), 1 << 60])
async def test_a_malformed_number_is_refused_and_charges_nothing(
    gateway: Gateway, clock: Clock, bad: object
) -> None:
    lease(gateway, clock, ("ela", 1000, 1000, 0))
    with pytest.raises(BadInput, match="estimate"):
        gateway.request(tenant="ela", pool=POOL, estimate=bad)  # type: ignore[arg-type]
    async with gateway.request(tenant="ela", pool=POOL, estimate=70) as call:
        with pytest.raises(BadInput, match="out is"):
            call.settle(uncached=1, out=bad)  # type: ignore[arg-type]
        call.settle(uncached=1, out=1)
    assert gateway.stats(POOL).tenants["ela"].spent == 2


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"pool": "nope"}, "this gateway serves chat"),
        ({"tenant": None}, "tenant is None"),
        ({"priority": 4}, "priority is 4"),
        ({"flow": "later"}, "flow is 'later'"),
        ({"estimate": None}, "give estimate="),
        ({"sequences": -1}, "sequences is -1"),
    ],
)
async def test_what_a_report_could_not_carry_is_refused(
    gateway: Gateway, fields: dict[str, object], told: str
) -> None:
    good: dict[str, object] = {"tenant": "ela", "pool": POOL, "estimate": 1}
    with pytest.raises(BadInput, match=told):
        gateway.request(**{**good, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "pools"), [("a/b", ["chat"]), ("", ["chat"]), ("a", "chat")])
def test_a_name_that_keys_could_not_carry_is_refused(name: str, pools: list[str]) -> None:
    with pytest.raises(BadInput):
        Gateway(brokers="nowhere:1", name=name, pools=pools)
