import pytest

from streams.demo.arrivals import Arrival
from streams.demo.pool import demo_pool, mean_load, trace_pool
from streams.demo.workload import ACTS
from tokenweir.records.spec import PoolSpec


def reserved(spec: PoolSpec) -> dict[str, tuple[str, int]]:
    """Class and baseline in tokens/s."""
    return {
        claim.tenant: (claim.service_class, claim.baseline // 1000) for claim in spec.entitlements
    }


def trace(steady: int, bursty: int) -> list[Arrival]:
    """`steady` sends one request each second of a minute and a half, `bursty` all at once."""
    calm = [Arrival(second * 1_000_000, "steady", "u", 100, 0, 10) for second in range(steady)]
    burst = [Arrival(30_000_000, "bursty", "u", 100, 100, 10) for _ in range(bursty)]
    return sorted(calm + burst)


def test_the_demos_pool_knows_all_of_its_tenants() -> None:
    spec = demo_pool("chat-1", None)

    assert spec.pool == "chat-1"
    assert spec.capacity.tokens_per_s == 320_000_000
    assert {act.tenant for act in ACTS} == set(reserved(spec))
    assert reserved(spec)["assistant"] == ("guaranteed", 192_000)


def test_baselines_follow_the_capacity() -> None:
    assert reserved(demo_pool("chat-1", 40_000))["assistant"] == ("guaranteed", 24_000)


def test_the_steadiest_tenant_of_a_trace_has_the_guarantee() -> None:
    spec = trace_pool("trace-1", trace(steady=90, bursty=90), 1_000)

    assert reserved(spec) == {"steady": ("guaranteed", 500), "bursty": ("elastic", 350)}


def test_a_pool_for_a_trace_does_a_quarter_more_than_its_mean_load() -> None:
    arrivals = trace(steady=91, bursty=0)  # 100 + 4 · 10 charged tokens, 91 times in 90 s

    assert mean_load(arrivals) == pytest.approx(140 * 91 / 90)
    assert trace_pool("trace-1", arrivals, None).capacity.tokens_per_s == 177_000


def test_a_spec_is_the_first_of_its_pool_and_carries_its_source() -> None:
    spec = demo_pool("chat-1", 1_000)

    assert (spec.version, spec.replaces) == (1, 0)
    assert "pool: chat-1" in spec.source
