"""Nothing flutters: tiers, breaker, tuned α and limits settle, and grants fit whatever happens."""

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.pools import HARD, ONE, SOFT, START, pool_with, ppm, report, spec, step, tenant
from tokenweir.core.actions import ACTIONS
from tokenweir.core.breaker import CLOSED, BreakerState, Pressure, next_breaker
from tokenweir.core.step import fold
from tokenweir.core.tier import TierState, next_tier, restarted
from tokenweir.records.control import Tier
from tokenweir.records.journal import DecisionEntry
from tokenweir.records.spec import CLASSES, BreakerTerms, TierTerms
from tokenweir.records.usage import CapacityReport

DWELL_MS = 10_000
TERMS = TierTerms(ppm(0.7), ppm(0.9), ONE, ppm(0.05), 2, DWELL_MS)
# The worst for calm: a cool-off much shorter than the dwell.
BRAKE = BreakerTerms("borrowers", 1_000, 8_000, ppm(0.05), ppm(0.1))
ORDER: tuple[Tier, ...] = ("normal", "soft_degrade", "hard_degrade", "circuit_break")
# Which breaker may follow which.
NEXT = {
    "closed": {"closed", "open"},
    "open": {"open", "half_open"},
    "half_open": {"half_open", "closed", "open"},
}


def tiers(levels: Sequence[int], step_ms: int) -> Iterator[tuple[int, Tier]]:
    """Pool time and published tier, decision after decision; all use is firm."""
    tier, brake = TierState(), CLOSED
    for place, level in enumerate(levels):
        at_ms = START + place * step_ms
        tier = next_tier(tier, level, TERMS, at_ms)
        was, brake = brake, next_breaker(brake, Pressure(level, 0), BRAKE, TERMS, at_ms)
        if was.breaker != "closed" and brake.breaker == "closed":
            tier = restarted(tier, at_ms)
        yield at_ms, tier.tier if brake.breaker == "closed" else "circuit_break"


def changes(seen: Sequence[tuple[int, Tier]]) -> list[tuple[int, int, int]]:
    """When the tier changed, from and to which place in `ORDER`."""
    places = [(at_ms, ORDER.index(tier)) for at_ms, tier in seen]
    return [(b[0], a[1], b[1]) for a, b in pairwise(places) if a[1] != b[1]]


@st.composite
def waves(draw: st.DrawFn, reaches: Sequence[int]) -> tuple[list[int], int]:
    """Levels around one threshold, and the time between two decisions."""
    centre = draw(st.sampled_from((ppm(0.7), ppm(0.9), ppm(0.65), ppm(0.95), ONE)))
    reach = draw(st.sampled_from(reaches))
    dice = random.Random(draw(st.integers(0, 10**9)))
    levels: list[int] = []
    while len(levels) < 300:
        levels += [max(centre + dice.randint(-reach, reach), 0)] * dice.choice((1, 1, 2, 5, 13, 30))
    return levels, draw(st.sampled_from((250, 1_000, 4_000)))


@settings(deadline=None)
@given(waves((0, 10_000, 60_000)))
def test_around_any_threshold_the_tier_changes_at_most_once_per_dwell(
    wave: tuple[list[int], int],
) -> None:
    levels, step_ms = wave
    assert_calm([*tiers(levels, step_ms)])


@pytest.mark.parametrize(("low", "high"), [(69, 71), (89, 91), (99, 101), (60, 76), (80, 97)])
@pytest.mark.parametrize("period", [1, 2, 3, 10, 11, 17])
def test_a_square_wave_changes_the_tier_at_most_once_per_dwell(
    low: int, high: int, period: int
) -> None:
    levels = ([low * 10_000] * period + [high * 10_000] * period) * (300 // period)
    assert_calm([*tiers(levels, 1000)])


def assert_calm(seen: Sequence[tuple[int, Tier]]) -> None:
    """The way up from nothing, where it is at once through several tiers, is no wave."""
    highest = max((tier for _, tier in seen), key=ORDER.index)
    arrived = next(at_ms for at_ms, tier in seen if tier == highest)
    times = [at_ms for at_ms, _, _ in changes(seen) if at_ms >= arrived]
    assert all(b - a >= DWELL_MS for a, b in pairwise(times))


@settings(deadline=None)
@given(waves((200_000, 400_000)))
def test_only_a_rise_comes_soon_after_a_change_and_not_to_a_tier_that_was_just_left(
    wave: tuple[list[int], int],
) -> None:
    levels, step_ms = wave
    left: dict[int, int] = {}
    last_ms = 0
    for at_ms, was, now in changes([*tiers(levels, step_ms)]):
        assert now > was or at_ms - last_ms >= DWELL_MS
        assert at_ms - left.get(now, 0) >= DWELL_MS or now < was
        left |= dict.fromkeys(range(now + 1, was + 1), at_ms)
        last_ms = at_ms


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2 * ONE) | st.integers(940_000, 1_010_000),
            st.sampled_from((0, ONE // 10, ONE // 10 + 1, ONE)),
            st.sampled_from((250, 1_000, 60_000)),
        ),
        max_size=200,
    )
)
def test_the_breaker_makes_only_the_transitions_that_there_are(
    seen: list[tuple[int, int, int]],
) -> None:
    state, at_ms = CLOSED, START
    for total, errors, passed in seen:
        at_ms += passed
        was, state = state, next_breaker(state, Pressure(total, errors), BRAKE, TERMS, at_ms)
        assert state.breaker in NEXT[was.breaker]
        assert 0 <= state.cool_off_ms <= BRAKE.longest_cool_off_ms
        _check_change(was, state, total, at_ms)


def _check_change(was: BreakerState, now: BreakerState, total: int, at_ms: int) -> None:
    if was.breaker == now.breaker:
        return
    assert now.since_ms == at_ms
    if was.breaker == "closed":
        assert total >= TERMS.circuit_break
    if now.breaker != "open":
        assert total < TERMS.circuit_break - TERMS.margin
        assert at_ms - was.since_ms >= was.cool_off_ms


@given(st.lists(st.integers(0, 949_999), min_size=1, max_size=200), st.integers(0, ONE))
def test_below_the_threshold_the_breaker_never_opens(levels: list[int], errors: int) -> None:
    state = CLOSED
    for place, level in enumerate(levels):
        state = next_breaker(state, Pressure(level, errors), BRAKE, TERMS, START + place * 1000)
        assert state.breaker == "closed"


CLAIMS = (
    tenant("core", "dedicated", 1_000),
    tenant("firm", "guaranteed", 2_000),
    tenant("soft", "elastic", 2_000),
    tenant("spare", "spot"),
    tenant("low", "preemptible"),
)
NAMES = tuple(claim.tenant for claim in CLAIMS)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from(("borrowers", "all")))
@example(0, "all")
def test_grants_fit_and_floors_pass_whatever_the_breaker_does(seed: int, refuses: str) -> None:
    dice = random.Random(seed)
    brake = BreakerTerms("all" if refuses == "all" else "borrowers", 2_000, 9_000, 50_000, 100_000)
    pool = pool_with(spec(*CLAIMS, breaker=brake, window_s=5))
    states = set()
    for second in range(60):
        if second % 15 == 7:
            part = dice.choice((0, 3_000, 6_000, 10_000)) * 1000
            fold(pool, CapacityReport("chat", "x", part, None, None), pool.clock_ms)
        used = {name: dice.choice((0, 500, 4_000)) for name in NAMES}
        wants = {name: dice.choice((0, 3_000)) for name in NAMES}
        decided = step(pool, report("g", second + 1, used, refused=wants), START + second * 1000)
        if decided is None:
            continue
        now, entry = decided.decision, decided.entries[0].body
        assert isinstance(entry, DecisionEntry)
        states.add(now.breaker)
        grant = dict(zip(entry.tenants.tenant, entry.tenants.grant, strict=True))
        pots = now.capacity // 20
        assert now.granted + pots <= now.capacity * 95 // 100
        assert now.breaker == "half_open" or now.probe_rate == 0
        assert now.probe_rate <= now.capacity // 20
        assert (now.tier == "circuit_break") == (now.breaker != "closed")
        if now.breaker == "open":
            assert now.granted == 0 or refuses == "borrowers"
            assert all(grant.get(name, 0) == 0 for name in ("spare", "low", "*"))
        if now.breaker == "half_open" and refuses == "all":
            assert now.granted <= now.probe_rate
        if refuses == "borrowers" and now.capacity >= 6_000_000:
            assert grant.get("core", 0) >= 1_000_000
    assert states <= {"closed", "open", "half_open"}


def test_the_response_to_a_ramp_is_graded_and_monotone_in_level_and_class() -> None:
    """Field note 48: 0 -> 1.1 -> 0; the lowest class from soft, the middle from hard, core last."""
    rules = spec(*CLAIMS)
    ramp = [percent * 10_000 for percent in (*range(111), *range(110, -1, -1))]
    harsh = np.array([_harshness(tier) for _, tier in tiers(ramp, 30_000)])
    top = 110
    assert (np.diff(harsh[:top], axis=0) >= 0).all()
    assert (np.diff(harsh[top + 1 :], axis=0) <= 0).all()
    assert (np.diff(harsh, axis=1) <= 0).all()  # never harsher to a higher class
    first = [int(np.argmax(harsh[:, rank] > 0)) for rank in range(5)]
    assert [ramp[place] // 10_000 for place in first[:3]] == [71, 71, 91]
    assert harsh[:, 3:].max() == 0  # the core is refused by no tier; floors pass when it is open
    assert rules.breaker.refuses == "borrowers"


def _harshness(tier: Tier) -> list[int]:
    """Of each class, lowest first, as `tests.pools` has them."""
    rules = {"normal": {}, "soft_degrade": SOFT}.get(tier, HARD)
    return [ACTIONS.index(rules.get(name, "none")) for name in CLASSES]
