"""Tuning settles: no limit cycles of α and limits while demand stays the same."""

import random
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.pools import ONE, START, pool_with, report, spec, step, tenant
from tests.property.constant import Constant
from tokenweir.core.pool import Pool

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


@settings(max_examples=3, deadline=None)
@example((("a", 20_000),))  # grants of 90 % in full use, and hard begins at 90 %
@given(
    st.lists(
        st.tuples(st.sampled_from(("a", "b", "c", "d", "e")), st.sampled_from((50, 3_000, 20_000))),
        max_size=5,
    )
)
def test_under_constant_demand_grants_tier_and_breaker_come_to_rest(
    asked: Sequence[tuple[str, int]],
) -> None:
    """Whole decisions: windows, smoothing, debt, bursts and leases as they are."""
    demand = dict(asked)
    pool = pool_with(
        spec(
            tenant("a", "elastic", 1_000),
            tenant("b", "elastic", 2_000, borrow_cap=500),
            tenant("c", "spot"),
            tenant("d", "guaranteed", 3_000, lend_cap=100),
            tenant("e", "preemptible"),
            window_s=10,
        )
    )
    seen = [_granted(pool, demand, second) for second in range(1, 160)][-50:]
    assert len({states for _, states in seen}) == 1
    grants = np.array([grants for grants, _ in seen])
    assert int(np.ptp(grants, axis=0).max(initial=0)) < 1_000  # what rounding carries over


def _granted(
    pool: Pool, demand: Mapping[str, int], second: int
) -> tuple[list[int], tuple[str, str]]:
    """A second in which everybody spends what it may and is refused the rest."""
    grant = [int(pool.tally.grant[pool.terms.index.get(name, 0)]) // 1000 for name in demand]
    spent = {name: min(demand[name], rate) for name, rate in zip(demand, grant, strict=True)}
    short = {name: demand[name] - spent[name] for name in demand}
    message = report("g", second, spent, refused=short, applied=pool.boundary_ms)
    decided = step(pool, message, START + second * 1000)
    assert decided is not None
    return pool.tally.grant.tolist(), (decided.decision.tier, decided.decision.breaker)


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
