"""Tiers: soft 70 %, hard 90 %, margin 5 %, up after 2 decisions, down after 10 s."""

from collections.abc import Iterable

import pytest

from tests.pools import HARD, ONE, SOFT, class_terms, ints, ppm
from tokenweir.core.actions import ACTIONS, action_of, actions_of, priority_threshold
from tokenweir.core.tier import TIERS, TierState, next_tier
from tokenweir.records.control import Tier
from tokenweir.records.spec import CLASSES, TierTerms

TERMS = TierTerms(ppm(0.7), ppm(0.9), ONE, ppm(0.05), 2, 10_000)
CLASS_TERMS = tuple(class_terms(name, {}, {}) for name in CLASSES)


def tiers(percents: Iterable[float], step_ms: int = 1000) -> list[Tier]:
    """The tier after each decision, one a second."""
    state, seen = TierState(), list[Tier]()
    for place, percent in enumerate(percents):
        state = next_tier(state, round(percent * 10_000), TERMS, place * step_ms)
        seen.append(state.tier)
    return seen


def changes(seen: list[Tier]) -> list[int]:
    return [place for place in range(1, len(seen)) if seen[place] != seen[place - 1]]


def test_a_tier_rises_when_its_level_has_held_for_two_decisions() -> None:
    assert tiers([69, 70, 70]) == ["normal", "normal", "soft_degrade"]


def test_one_high_decision_changes_nothing() -> None:
    assert tiers([80, 60, 80, 60]) == ["normal"] * 4


def test_a_level_that_leaps_passes_soft_by() -> None:
    assert tiers([95, 95]) == ["normal", "hard_degrade"]


def test_each_tier_needs_its_own_two_decisions() -> None:
    assert tiers([75, 95, 95]) == ["normal", "soft_degrade", "hard_degrade"]


def test_a_tier_falls_after_the_dwell_and_not_before() -> None:
    #  0 s 70  1 s 70: soft  2 s … 12 s 64
    seen = tiers([70, 70, *[64] * 11])
    assert seen[11] == "soft_degrade"  # low for 9 s
    assert seen[12] == "normal"  # low for 10 s


def test_inside_the_margin_a_tier_does_not_fall() -> None:
    assert tiers([70, 70, *[65] * 60])[-1] == "soft_degrade"
    assert tiers([70, 70, *[64.9] * 60])[-1] == "normal"


def test_one_decision_inside_the_margin_starts_the_dwell_again() -> None:
    seen = tiers([70, 70, *[64] * 9, 66, *[64] * 11])
    assert changes(seen) == [1, 22]


def test_a_wobble_around_a_threshold_changes_the_tier_once() -> None:
    seen = tiers([69, 71] * 100 + [71, 71] + [69, 71] * 100)
    assert changes(seen) == [200]  # 71 twice in a row


@pytest.mark.parametrize("low", [40, 60, 64, 66])
@pytest.mark.parametrize("period", [3, 7, 11, 25])
def test_however_it_wobbles_a_tier_that_rose_stays_for_a_dwell(low: int, period: int) -> None:
    seen = tiers(([75] * period + [low] * period) * 10)
    falls = [place for place in changes(seen) if seen[place] == "normal"]
    rises = [place for place in changes(seen) if seen[place] != "normal"]
    assert all(min(fall - rise for rise in rises if rise < fall) >= 10 for fall in falls)


def test_from_hard_it_falls_only_past_what_has_been_undercut_for_a_dwell() -> None:
    # Below hard's margin for 10 s, but below soft's for 1 s only.
    assert tiers([95, 95, *[80] * 9, 60, 60])[-1] == "soft_degrade"
    assert tiers([95, 95, *[50] * 11])[-1] == "normal"


def test_the_dwell_is_pool_time_and_not_a_count_of_decisions() -> None:
    state = TierState("soft_degrade")
    state = next_tier(state, ppm(0.1), TERMS, 1_000)
    assert next_tier(state, ppm(0.1), TERMS, 11_000).tier == "normal"


def test_the_response_is_graded_and_monotone_in_level_and_class() -> None:
    """A ramp 0 -> 1.1 -> 0: the lowest classes are limited first, the core never."""
    up = [percent / 2 for percent in range(220)]
    seen = tiers(up + up[::-1])
    severity = [TIERS.index(tier) for tier in seen]
    assert severity[:220] == sorted(severity[:220])
    assert severity[220:] == sorted(severity[220:], reverse=True)
    assert set(severity) == {0, 1, 2}
    for tier in TIERS:
        harshness = [ACTIONS.index(action_of(terms, tier)) for terms in CLASS_TERMS]
        assert harshness == sorted(harshness, reverse=True)
        assert harshness[-2:] == [0, 0]


def test_actions_stand_in_the_order_of_the_tenants() -> None:
    assert actions_of(CLASS_TERMS, "hard_degrade", ints(2, 0, 4, 1)).tolist() == [2, 3, 0, 3]
    assert HARD["elastic"] == "floor_only"
    assert SOFT["spot"] == "limit"


def test_the_priority_threshold_is_the_lowest_class_that_is_not_refused() -> None:
    assert priority_threshold(CLASS_TERMS, "normal") == "preemptible"
    assert priority_threshold(CLASS_TERMS, "soft_degrade") == "preemptible"
    assert priority_threshold(CLASS_TERMS, "hard_degrade") == "elastic"
