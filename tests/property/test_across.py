"""Quotas across pools: what all pools together may spend is never more than the quota (Q2)."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pools import START
from tokenweir.across.rows import BLOCKS, from_rows, to_rows
from tokenweir.across.share import FRESH_MS, KEPT_MS, Across, take
from tokenweir.errors import BadRecord
from tokenweir.records.usage import PoolSpend, QuotaCeiling

QUOTA = 100_000
DAY_MS = 86_400_000
POOLS = ("chat", "code", "plan")


def spend(
    pool: str, spent: int, wanted: int, ceiling: int = 0, limit: int = QUOTA, user: str = ""
) -> PoolSpend:
    return PoolSpend(
        pool, "acme", user, "day/2027-01-15", START, START + DAY_MS, limit, spent, wanted,
        ceiling, START,
    )  # fmt: skip


def tokens(ceiling: QuotaCeiling | None) -> int:
    return 0 if ceiling is None else ceiling.tokens


amounts = st.integers(0, QUOTA)
told = st.lists(
    st.tuples(st.sampled_from(POOLS), amounts, amounts, st.integers(0, 40_000), st.booleans())
)


@settings(max_examples=100, deadline=None)
@given(told, st.randoms(use_true_random=False))
def test_ceilings_only_rise_and_add_up_to_no_more_than_the_quota(
    messages: list[tuple[str, int, int, int, bool]], dice: random.Random
) -> None:
    state, ceilings, at_ms = Across(), dict.fromkeys(POOLS, 0), START
    for pool, part, wanted, gap_ms, restored in messages:
        at_ms += gap_ms
        if restored:
            state = from_rows(to_rows(state, [f"{n:02}" for n in range(BLOCKS)]))
        # What is spent is within the ceiling, and the pool may not have heard of the newest yet.
        spent = part * ceilings[pool] // QUOTA
        known = dice.choice((0, ceilings[pool]))
        found = take(state, spend(pool, spent, wanted, known), at_ms)
        if found is not None:
            assert found.tokens > ceilings[pool]
            assert found.tokens <= max(spent + wanted, ceilings[pool])
            ceilings[pool] = found.tokens
        assert sum(ceilings.values()) <= QUOTA


def test_a_quota_that_is_short_is_shared_by_what_each_pool_lacks() -> None:
    state = Across()
    take(state, spend("chat", 0, 30_000), START)
    take(state, spend("code", 0, 60_000), START)
    assert (
        tokens(take(state, spend("chat", 30_000, 40_000), START + 1_000)) == 40_000
    )  # the 10 000 that are left


def test_without_its_rows_it_learns_from_the_pools_what_they_were_given() -> None:
    state = Across()
    take(state, spend("chat", 50_000, 10_000, ceiling=70_000), START)
    assert tokens(take(state, spend("code", 0, 60_000), START)) == 30_000


def test_a_pool_that_has_fallen_silent_keeps_what_it_was_given_and_takes_no_part() -> None:
    state = Across()
    take(state, spend("chat", 0, 60_000), START)
    assert tokens(take(state, spend("code", 0, 80_000), START + FRESH_MS + 1)) == 40_000


def test_the_smallest_limit_holds_where_specs_differ() -> None:
    state = Across()
    take(state, spend("chat", 0, 10_000, limit=50_000), START)
    assert tokens(take(state, spend("code", 0, 80_000), START)) == 40_000


def test_windows_that_are_long_over_are_forgotten() -> None:
    state = Across()
    take(state, spend("chat", 0, 10_000), START)
    assert take(state, spend("code", 0, 10_000), START + DAY_MS + KEPT_MS + 1) is None
    assert state.shared == {}


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (spend("chat", 0, 10**16), "wanted is"),
        (spend("a/b", 0, 1), "slash"),
        (PoolSpend("chat", "a", "", "day/x", 5, 5, 1, 0, 1, 0, 5), "after starts_ms"),
    ],
)
def test_records_that_cannot_be_are_refused(bad: PoolSpend, why: str) -> None:
    with pytest.raises(BadRecord, match=why):
        take(Across(), bad, START)
