"""Grants: floors, then what is lent by weight, then headroom. Rates in milli-tokens/s.

Unless told otherwise 9 000 are available; a class's weights are 1000, 500, 100, 1 and 0.1.
"""

from collections.abc import Mapping

import numpy as np

from tests.pools import HARD, SOFT, ints, spec, tenant
from tokenweir.core.actions import ACTIONS, NONE
from tokenweir.core.grants import Grants, grants
from tokenweir.core.terms import Ints, terms_of
from tokenweir.core.weights import weights
from tokenweir.records.spec import Entitlement, PoolSpec


def of(
    demand: Mapping[str, int],
    *tenants: Entitlement,
    available: int = 9_000,
    actions: Mapping[str, str] | None = None,
    rules: PoolSpec | None = None,
    seen: bool = False,
    capacity: int = 10_000,
) -> tuple[dict[str, int], Grants]:
    """The grants by name; tenants count as seen where they ask, or all of them with `seen`."""
    rules = rules or spec(*tenants)
    some = terms_of(rules, rules.capacity)
    wants = ints(*(demand.get(name, 0) for name in some.names))
    still = np.zeros(len(wants), dtype=np.int64)
    of_class = dict(zip(some.names, some.rank.tolist(), strict=True))
    action = ints(*(_action(of_class[name], actions or {}) for name in some.names))
    found = grants(
        available,
        wants,
        weights(some, rules.weights, still, still),
        some,
        rules,
        action,
        (wants > 0) | seen,
        still.copy(),
        capacity,
    )
    return dict(zip(some.names, found.grant.tolist(), strict=True)), found


def _action(rank: int, actions: Mapping[str, str]) -> int:
    name = ("preemptible", "spot", "elastic", "guaranteed", "dedicated")[rank]
    return ACTIONS.index(actions[name]) if name in actions else NONE


def borrowed(found: Grants) -> list[int]:
    listed: list[int] = found.borrowed.tolist()
    return listed


E1, E2 = tenant("e1", "elastic", 1), tenant("e2", "elastic", 1)
S1, S2 = tenant("s1", "spot"), tenant("s2", "spot")
G = tenant("g", "guaranteed", 5)


def test_all_demand_is_met_while_it_fits() -> None:
    got, _ = of({"e1": 3000, "s1": 2000}, E1, S1)
    assert got["e1"] >= 3000
    assert got["s1"] >= 2000


def test_what_nobody_asks_for_is_headroom_by_weight_for_those_seen() -> None:
    # 9 000 - 2 000 of demand: 7 000 by 100 : 1, 6 930.7 and 69.3.
    got, _ = of({"e1": 1000, "s1": 1000}, E1, S1, tenant("idle", "elastic"))
    assert got == {"*": 0, "e1": 7931, "idle": 0, "s1": 1069}
    assert sum(got.values()) == 9_000


def test_headroom_stops_at_the_caps() -> None:
    got, _ = of({"e1": 1000}, tenant("e1", "elastic", 1, borrow_cap=2))
    assert got["e1"] == 3000


def test_under_scarcity_the_classes_share_by_weight_above_their_floors() -> None:
    # e1's floor is 1 000; 8 000 are shared 100 : 1 : 1.
    got, found = of({"e1": 9000, "s1": 9000, "s2": 9000}, E1, S1, S2)
    assert borrowed(found) == [0, 7843, 79, 78]
    assert got == {"*": 0, "e1": 8843, "s1": 79, "s2": 78}


def test_the_idle_part_of_a_reservation_is_lent_but_for_a_fifth() -> None:
    # g reserves 5 000 and is idle: 4 000 are lent, 1 000 wait for it.
    got, _ = of({"s1": 20_000}, G, S1)
    assert got == {"*": 0, "g": 0, "s1": 8_000}


def test_an_owner_that_was_there_lately_holds_what_is_kept_for_it() -> None:
    got, _ = of({"s1": 20_000}, G, S1, seen=True)
    assert got == {"*": 0, "g": 1_000, "s1": 8_000}


def test_an_owner_that_comes_back_has_its_baseline_at_once() -> None:
    got, _ = of({"g": 5_000, "s1": 20_000}, G, S1)
    assert got["g"] == 5_000
    assert got["s1"] == 4_000


def test_alpha_zero_lends_nothing() -> None:
    got, _ = of({"s1": 20_000}, rules=spec(G, S1, alpha=0.0))
    assert got["s1"] == 4_000


def test_a_class_has_an_alpha_of_its_own() -> None:
    # 4 000 are nobody's; of the 5 000 idle ones spot may have a fifth, elastic four.
    rules = spec(G, S1, tenant("e", "elastic"), alphas={"spot": 0.2})
    got, _ = of({"s1": 20_000}, rules=rules)
    assert got["s1"] == 5_000
    got, _ = of({"e": 20_000}, rules=rules)
    assert got["e"] == 8_000


def test_a_borrow_cap_holds() -> None:
    got, _ = of({"s1": 20_000, "s2": 20_000}, tenant("s1", "spot", borrow_cap=0.7), S2)
    assert got == {"*": 0, "s1": 700, "s2": 8_300}


def test_a_class_has_at_most_its_share_of_the_pool() -> None:
    rules = spec(S1, S2, E1, share_caps={"spot": 0.3})
    got, _ = of({"s1": 20_000, "s2": 20_000}, rules=rules)
    assert (got["s1"], got["s2"]) == (1_500, 1_500)
    got, _ = of({"s1": 100, "s2": 100}, rules=rules)
    assert got["s1"] + got["s2"] == 3_000  # headroom included


def test_a_share_of_the_pool_counts_what_the_class_has_reserved() -> None:
    # 30 % of 10 000 = 3 000; the floor is 1 000, and 800 of 4 000 idle ones are kept for it.
    rules = spec(tenant("e", "elastic", 5), share_caps={"elastic": 0.3})
    got, _ = of({"e": 1_000}, rules=rules)
    assert got["e"] == 3_000


def test_limit_halves_what_is_borrowed_and_gives_no_headroom() -> None:
    got, found = of({"s1": 3_000}, S1, actions=SOFT)
    assert borrowed(found) == [0, 1_500]
    assert got["s1"] == 1_500


def test_floor_only_borrows_nothing() -> None:
    got, _ = of({"e1": 5_000}, E1, actions=HARD)
    assert got["e1"] == 1_000


def test_refuse_gives_nothing() -> None:
    got, _ = of({"s1": 5_000, "e1": 5_000}, S1, E1, actions=HARD)
    assert got["s1"] == 0


def test_the_suspended_get_nothing_and_what_they_reserve_is_free() -> None:
    got, _ = of({"g": 5_000, "s1": 20_000}, tenant("g", "guaranteed", 5, suspended=True), S1)
    assert got == {"*": 0, "g": 0, "s1": 9_000}


def test_the_lowest_class_gets_more_than_nothing_while_anything_is_left() -> None:
    got, _ = of({"p": 100, "e1": 90_000}, E1, tenant("p", "preemptible"))
    assert got["p"] == 8  # 8 000 · 0.1/100.1 = 7.99


def test_two_tenants_of_the_same_weight_get_the_same_whatever_their_requests_are_like() -> None:
    got, _ = of({"e1": 80_000, "e2": 9_000}, E1, E2)
    assert got["e1"] == got["e2"] == 4_500


def test_floors_above_the_capacity_leave_nothing_to_borrow() -> None:
    got, found = of({"d": 1, "g": 9_000, "s1": 9_000}, tenant("d", "dedicated", 8), G, S1)
    assert got == {"*": 0, "d": 8_000, "g": 1_000, "s1": 0}
    assert borrowed(found) == [0, 0, 0, 0]


def test_no_capacity_gives_no_grants() -> None:
    got, _ = of({"d": 9, "s1": 9}, tenant("d", "dedicated", 8), S1, available=0)
    assert set(got.values()) == {0}


def test_the_sum_is_never_above_what_is_available() -> None:
    for available in (0, 1, 7, 999, 5_000, 9_000):
        got, found = of({"g": 9_000, "e1": 900, "s1": 5_000}, G, E1, S1, available=available)
        assert sum(got.values()) <= available
        assert _whole(found.grant)


def _whole(values: Ints) -> bool:
    return bool((values >= 0).all())
