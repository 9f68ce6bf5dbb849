"""Tuning settles: no limit cycles of α and limits while demand stays the same."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pools import ONE
from tests.property.constant import Constant

SETTLED, AFTER = 90, 30  # looks until everything has settled, and looks that it is watched then


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**9))
def test_under_constant_demand_alpha_and_limits_come_to_rest(seed: int) -> None:
    pool = Constant(random.Random(seed))
    moves = [len(changed) for changed in pool.looks(SETTLED)]
    assert sum(moves) <= 12 * (len(pool.pool.terms.names) + 1)
    state = pool.state
    assert [*pool.looks(AFTER)] == [()] * AFTER
    assert pool.state == state


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_noise_of_a_tenth_does_not_wake_them(seed: int) -> None:
    pool = Constant(random.Random(seed), noise=10)
    assert len([*pool.looks(SETTLED)]) == SETTLED
    assert [*pool.looks(AFTER)] == [()] * AFTER


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**9))
def test_alpha_and_limits_stay_within_their_bounds(seed: int) -> None:
    pool = Constant(random.Random(seed))
    terms = pool.spec.tuning
    said = [pool.spec.alpha, *(one.alpha for one in pool.spec.classes if one.alpha is not None)]
    for _ in pool.looks(40):
        alphas, limits = pool.state
        assert all(alpha == -1 or 0 <= alpha <= max(terms.alpha_most, *said) for alpha in alphas)
        assert all(alpha == -1 or alpha >= min(terms.alpha_least, *said) for alpha in alphas)
        assert all(ONE // 2 <= limit <= terms.limits_most for limit in limits)


@pytest.mark.experiment
def test_under_constant_demand_many_pools_come_to_rest(full: bool) -> None:
    for seed in range(2_000 if full else 5):
        pool = Constant(random.Random(seed))
        assert len([*pool.looks(SETTLED)]) == SETTLED
        assert [*pool.looks(AFTER)] == [()] * AFTER, seed
