"""Sequences and KV bytes: granted like tokens, given until what runs has ended (L2, L3)."""

from collections.abc import Mapping
from dataclasses import replace

from tests.pools import START, pool_with, report, spec, step, tenant
from tokenweir.core.pool import Pool
from tokenweir.core.step import Decided
from tokenweir.records.control import GatewayLeases
from tokenweir.records.usage import CapacityReport, UsageReport

TENANTS = (
    tenant("core", "guaranteed", 4_000),
    tenant("firm", "elastic", 2_000),
    tenant("s", "spot"),
)


def limited(sequences: int = 100, **options: int) -> Pool:
    return pool_with(spec(*TENANTS, sequences=sequences, **options))  # type: ignore[arg-type]  # ints


def decided(pool: Pool, at_ms: int) -> Decided:
    """The decision of `at_ms`, made by an empty report of a gateway that never obeys."""
    result = step(pool, report("clock", at_ms // 500), at_ms)
    assert result is not None
    return result


def limits(result: Decided, gateway: str) -> dict[str, int]:
    (found,) = (lease for lease in result.leases if lease.gateway == gateway)
    return dict(zip(found.tenant, found.sequences, strict=True))


def issued(result: Decided) -> int:
    return sum(sum(lease.sequences) + lease.pot_sequences for lease in result.leases)


def busy(gateway: str, sequence: int, running: Mapping[str, int], applied: int = 0) -> UsageReport:
    return report(
        gateway, sequence, dict.fromkeys(running, 900), sequences=running, applied=applied
    )


def test_without_a_limit_of_the_pool_leases_have_none() -> None:
    pool = pool_with(spec(*TENANTS))
    step(pool, report("g", 1, {"core": 500}), START + 400)
    (lease,) = (one for one in decided(pool, START + 1000).leases if one.gateway == "g")
    assert set(lease.sequences) == {-1}
    assert (lease.pot_sequences, lease.pot_kv_bytes) == (-1, -1)


def test_sequences_are_reserved_in_proportion_to_the_baseline() -> None:
    """core 40 % of 100; 95 are granted, and 5 of them lie in the pots of two gateways."""
    pool = limited()
    step(pool, busy("g", 1, {"core": 20, "firm": 10, "s": 20}), START + 400)
    result = decided(pool, START + 1000)
    assert limits(result, "g")["core"] >= 40
    assert issued(result) == 95


def test_what_runs_beyond_a_limit_counts_until_it_ends() -> None:
    """s runs 90 of 100; the owner's 40 come as they end, and the sum never exceeds 95."""
    pool = limited()
    step(pool, busy("g", 1, {"s": 90}), START + 400)
    first = decided(pool, START + 1000)
    step(pool, busy("g", 2, {"s": 90, "core": 5}, first.decision.at_ms), START + 1400)
    second = decided(pool, START + 2000)
    assert limits(second, "g")["core"] <= 5
    step(pool, busy("g", 3, {"s": 30, "core": 5}, second.decision.at_ms), START + 2400)
    third = decided(pool, START + 3000)
    assert limits(third, "g")["core"] > 5


def test_the_sequences_of_a_silent_gateway_are_given_until_its_longest_request_has_ended() -> None:
    pool = limited(lease_ms=5_000, floor_ms=20_000)
    step(pool, busy("gone", 1, {"s": 80}), START + 400)
    given = limits(decided(pool, START + 1000), "gone")["s"]
    assert given > 50
    at_ms = START + 2000
    number = 0
    while at_ms < START + 60_000:
        number += 1
        step(pool, busy("here", number, {"s": 80}, pool.boundary_ms), at_ms - 100)
        result = decided(pool, at_ms)
        assert limits(result, "here").get("s", 0) <= 95 - given
        at_ms += 1000


def test_when_the_capacity_drops_nothing_grows_until_it_fits() -> None:
    pool = limited()
    step(pool, busy("a", 1, {"s": 40}), START + 300)
    step(pool, busy("b", 1, {"s": 40}), START + 400)
    before = decided(pool, START + 1000)
    step(pool, CapacityReport("chat", "test", None, None, 40), START + 1100)
    step(pool, busy("a", 2, {"s": 10}, before.decision.at_ms), START + 1300)
    step(pool, busy("b", 2, {"s": 10}, before.decision.at_ms), START + 1400)
    after = decided(pool, START + 2000)
    assert issued(after) <= 40
    assert after.decision.capacity == before.decision.capacity


def test_a_cap_on_sequences_holds() -> None:
    capped = (*TENANTS[:2], replace(TENANTS[2], sequence_cap=7))
    pool = pool_with(spec(*capped, sequences=100))
    step(pool, busy("g", 1, {"s": 40}), START + 400)
    assert limits(decided(pool, START + 1000), "g")["s"] == 7


def test_kv_bytes_are_granted_in_whole_mebibytes() -> None:
    pool = pool_with(spec(*TENANTS, kv_bytes=2**30))
    step(pool, report("g", 1, {"core": 900}), START + 400)
    lease: GatewayLeases
    (lease,) = (one for one in decided(pool, START + 1000).leases if one.gateway == "g")
    assert sum(lease.kv_bytes) + lease.pot_kv_bytes <= 2**30 * 95 // 100
    assert all(amount % 2**20 == 0 for amount in lease.kv_bytes)


def test_who_runs_nothing_asks_for_kv_bytes_as_others_use_them() -> None:
    """s is limited, so it has no headroom: without a demand it would never have room to begin."""
    pool = pool_with(spec(*TENANTS, kv_bytes=2**30))
    for number in range(1, 21):
        full = report(
            "g",
            number,
            {"core": 8_000},
            refused={"s": 900},
            sequences={"core": 4},
            applied=pool.boundary_ms,
        )
        totals = replace(full.totals, kv_bytes=[4 * 3 * 2**20, 0], refused=[0, 4])
        step(pool, replace(full, totals=totals), START + number * 1000 - 500)
        result = decided(pool, START + number * 1000)
    assert result.decision.tier == "soft_degrade"
    (lease,) = (one for one in result.leases if one.gateway == "g")
    # Four of 3 MiB are asked for, and half of what is borrowed is given.
    assert dict(zip(lease.tenant, lease.kv_bytes, strict=True))["s"] == 6 * 2**20
