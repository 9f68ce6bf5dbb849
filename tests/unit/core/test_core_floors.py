"""Floors: dedicated always, guaranteed on asking, elastic as far as it fits."""

from tests.pools import ints, ppm, tenant, terms
from tokenweir.core.floors import Floors, fit, floors
from tokenweir.core.terms import Ints, Terms

# The columns: *, d, e, f, g.
FOUR = terms(
    tenant("d", "dedicated", 2),
    tenant("e", "elastic", 3),
    tenant("f", "elastic", 3),
    tenant("g", "guaranteed", 4),
)
EQUAL = ints(1, 1, 1, 1, 1)


def of(
    available: int, demand: tuple[int, ...], some: Terms = FOUR, weight: Ints | None = None
) -> Floors:
    given = EQUAL[: len(demand)] if weight is None else weight
    return floors(available, ints(*demand), given, some, ppm(0.8))


def test_dedicated_has_its_baseline_without_asking_and_never_lends_it() -> None:
    found = of(20_000, (0, 0, 0, 0, 0))
    assert found.floor.tolist() == [0, 2000, 0, 0, 0]
    assert found.idle.tolist()[1] == 0
    assert found.lent.tolist()[1] == 0


def test_guaranteed_and_elastic_have_theirs_as_far_as_they_ask() -> None:
    found = of(20_000, (0, 0, 1000, 9000, 2500))
    assert found.floor.tolist() == [0, 2000, 1000, 3000, 2500]
    assert found.idle.tolist() == [0, 0, 2000, 0, 1500]


def test_four_fifths_of_what_is_idle_is_lent() -> None:
    found = of(20_000, (0, 0, 1000, 9000, 2500))
    assert found.lent.tolist() == [0, 0, 1600, 0, 1200]


def test_a_lend_cap_keeps_more() -> None:
    some = terms(tenant("g", "guaranteed", 4, lend_cap=0.5))
    found = floors(20_000, ints(0, 1000), ints(1, 1), some, ppm(0.8))
    assert found.idle.tolist() == [0, 3000]
    assert found.lent.tolist() == [0, 500]


def test_elastic_floors_that_do_not_fit_are_shared_by_weight() -> None:
    # 10 000 - 2 000 - 4 000 = 4 000 for e and f, 3 : 1.
    found = of(10_000, (0, 0, 9000, 9000, 4000), weight=ints(1, 1, 3, 1, 1))
    assert found.floor.tolist() == [0, 2000, 3000, 1000, 4000]


def test_elastic_floors_do_not_eat_what_is_kept_for_an_idle_owner() -> None:
    # g is idle: 4 000, of which 800 stay unlent; 10 000 - 2 000 - 800 = 7 200 for e and f.
    assert of(10_000, (0, 0, 9000, 9000, 0)).floor.tolist() == [0, 2000, 3000, 3000, 0]
    # 8 000 leave 5 200 for both.
    assert of(8_000, (0, 0, 9000, 9000, 0)).floor.tolist() == [0, 2000, 2600, 2600, 0]


def test_guaranteed_floors_shrink_first_when_the_core_does_not_fit() -> None:
    two = terms(
        tenant("d", "dedicated", 4), tenant("g", "guaranteed", 4), tenant("h", "guaranteed", 2)
    )
    found = of(7_000, (0, 0, 9000, 9000), two)
    assert found.floor.tolist() == [0, 4000, 2000, 1000]  # 3 000 for 6 000: half of each


def test_dedicated_floors_shrink_when_there_is_nothing_else_to_shrink() -> None:
    two = terms(
        tenant("c", "dedicated", 1), tenant("d", "dedicated", 3), tenant("g", "guaranteed", 4)
    )
    assert of(2_000, (0, 0, 0, 9000), two).floor.tolist() == [0, 500, 1500, 0]


def test_without_any_capacity_there_is_no_floor() -> None:
    assert of(0, (9, 9, 9, 9, 9)).floor.tolist() == [0, 0, 0, 0, 0]
    assert of(-500, (9, 9, 9, 9, 9)).floor.tolist() == [0, 0, 0, 0, 0]


def test_the_suspended_have_no_floor_and_lend_nothing() -> None:
    some = terms(tenant("d", "dedicated", 2, suspended=True))
    found = of(20_000, (0, 9000), some)
    assert (found.floor.tolist(), found.idle.tolist()) == ([0, 0], [0, 0])


def test_a_baseline_can_be_a_share_of_the_capacity() -> None:
    some = terms(tenant("d", "dedicated", share=0.25), capacity=8)
    assert some.baseline.tolist() == [0, 2000]


def test_spot_has_no_baseline_whatever_its_spec_says() -> None:
    assert terms(tenant("s", "spot", 5)).baseline.tolist() == [0, 0]


def test_what_does_not_fit_is_cut_in_proportion_and_rounded_down() -> None:
    assert fit(10, ints(5, 15)).tolist() == [2, 7]
    assert fit(20, ints(5, 15)).tolist() == [5, 15]
    assert fit(-1, ints(5, 15)).tolist() == [0, 0]
