"""Quotas over random runs: nothing that one forbids is admitted, and ceilings keep Q1."""

import time

import pytest

from tests.pools import START, pool_with, report, spec, tenant
from tests.property.quota_world import UTC, QuotaWorld
from tokenweir.core.step import advance, fold
from tokenweir.records.spec import Quota


def play(seed: int, trouble: float, rounds: int) -> QuotaWorld:
    """So many times 15 s; everything is checked after each."""
    world = QuotaWorld(seed, trouble)
    for _ in range(rounds):
        world.run(15)
        world.check()
    return world


@pytest.mark.parametrize(("seed", "trouble"), [(1, 0.0), (2, 0.1), (3, 0.4)])
def test_all_gateways_together_never_spend_more_than_a_quota(seed: int, trouble: float) -> None:
    """One window and the beginning of the next."""
    world = play(seed, trouble, rounds=5)
    assert sum(world.admitted.values()) > 10_000


@pytest.mark.experiment
@pytest.mark.timeout(3600)
def test_they_do_not_in_many_runs_either(full: bool) -> None:
    runs = 60 if full else 1
    for seed in range(runs):
        play(seed, (0.0, 0.05, 0.2, 0.4)[seed % 4], rounds=20)
    print(f"{runs} runs of five minutes, none above a quota")


def decision_s(with_quotas: bool) -> float:
    """CPU time of a decision of 20 000 tenants, of which 100 are active at four gateways."""
    quotas = [Quota("day", "UTC", 10**7, 0, False, False)] if with_quotas else ()
    tenants = [tenant(f"t{number:05}", "spot", quotas=quotas) for number in range(20_000)]
    pool = pool_with(spec(*tenants, capacity=10**6, zones=(UTC,)))
    used = {f"t{number * 200:05}": 500 for number in range(100)}
    times = []
    for second in range(1, 14):
        for gateway in "abcd":
            before_s = time.process_time()
            decided = advance(pool, START + second * 1000)
            if decided is not None:
                times.append(time.process_time() - before_s)
            made = report(gateway, second, used, applied=pool.boundary_ms if second > 1 else 0)
            fold(pool, made, START + second * 1000)
    return sorted(times)[len(times) // 2]


@pytest.mark.experiment
def test_20_000_quotas_of_which_100_are_in_use_add_less_than_20_ms_to_a_decision() -> None:
    without, with_quotas = decision_s(False), decision_s(True)
    print(f"{without * 1000:.1f} ms without quotas, {with_quotas * 1000:.1f} ms with")
    assert with_quotas - without < 0.02
