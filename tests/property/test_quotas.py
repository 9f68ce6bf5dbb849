"""Quotas over random runs: nothing that one forbids is admitted, and ceilings keep Q1."""

import pytest

from tests.property.quota_world import QuotaWorld


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
