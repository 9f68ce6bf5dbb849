"""Weighted max-min sharing: the numbers can be checked by hand."""

import numpy as np
import pytest

from tests.pools import ints
from tokenweir.core.share import cut, share, split


def test_what_fits_is_given_in_full() -> None:
    assert share(100, ints(1, 1), ints(30, 70)).tolist() == [30, 70]


def test_scarce_tokens_go_by_weight() -> None:
    assert share(100, ints(3, 1), ints(1000, 1000)).tolist() == [75, 25]


def test_what_one_does_not_need_goes_to_the_others_by_weight() -> None:
    # 60 / 3 = 20 each; the first needs only 6; 54 are left for two.
    assert share(60, ints(1, 1, 1), ints(6, 100, 100)).tolist() == [6, 27, 27]


def test_a_cap_found_in_the_second_round_frees_tokens_for_the_third() -> None:
    # 100: the first takes 10 of its 25; then 30 each, the second takes 28; 62 are left for two.
    assert share(100, ints(1, 1, 1, 1), ints(10, 28, 90, 90)).tolist() == [10, 28, 31, 31]


def test_a_higher_weight_with_a_low_cap_does_not_keep_the_rest() -> None:
    assert share(10, ints(1000, 1), ints(3, 100)).tolist() == [3, 7]


def test_the_rest_of_a_division_goes_by_largest_remainder_then_by_position() -> None:
    # 10 by 3:3:1 is 4.28, 4.28, 1.43: one is left, and the last has lost most.
    assert share(10, ints(3, 3, 1), ints(100, 100, 100)).tolist() == [4, 4, 2]
    assert share(10, ints(1, 1, 1), ints(100, 100, 100)).tolist() == [4, 3, 3]


def test_what_rounding_took_is_carried_to_the_next_decision() -> None:
    carry = ints(0, 0, 0)
    got = [share(10, ints(1, 1, 1), ints(100, 100, 100), carry).tolist() for _ in range(3)]
    assert got == [[4, 3, 3], [3, 4, 3], [3, 3, 4]]


def test_the_smallest_weight_gets_something_in_time() -> None:
    # One unit a decision, 1000 : 1: the small one has 1/1001 of a unit more each time.
    carry = ints(0, 0)
    got = [share(1, ints(1000, 1), ints(5, 5), carry).tolist() for _ in range(1002)]
    assert sum(small for _, small in got) == 1


@pytest.mark.parametrize("total", [0, -5])
def test_nothing_is_shared_when_there_is_nothing(total: int) -> None:
    assert share(total, ints(1, 2), ints(10, 10)).tolist() == [0, 0]


def test_a_negative_cap_counts_as_none() -> None:
    assert share(10, ints(1, 1), ints(-4, 20)).tolist() == [0, 10]


def test_a_weight_of_zero_counts_as_the_smallest() -> None:
    assert share(10, ints(0, 9), ints(100, 100)).tolist() == [1, 9]


def test_large_amounts_are_shared_exactly() -> None:
    got = share(10**12 - 1, ints(1, 1, 1), ints(10**13, 10**13, 10**13))
    assert int(got.sum()) == 10**12 - 1
    assert int(got.max() - got.min()) <= 1


def test_an_amount_is_split_in_proportion_and_adds_up() -> None:
    parts = split(ints(10, 7, 5), np.array([[1, 0, 0], [3, 1, 0]]))
    assert parts[:, 0].tolist() == [2, 8]
    assert parts[:, 1].tolist() == [0, 7]  # all of it to the only one that asks


def test_an_amount_nobody_asks_for_is_split_equally() -> None:
    parts = split(ints(10), np.zeros((3, 1), np.int64))
    assert parts[:, 0].tolist() == [3, 3, 4]


def test_a_split_among_no_gateways_is_empty() -> None:
    assert split(ints(10), ints().reshape(0, 1)).shape == (0, 1)


def test_nothing_is_cut_to_parts_where_nobody_asks() -> None:
    parts = cut(ints(10, 0), np.array([[1, 0], [4, 0]]))  # running sums of 1 and 3
    assert parts[:, 0].tolist() == [2, 8]
    assert parts[:, 1].tolist() == [0, 0]
