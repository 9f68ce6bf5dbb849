"""Smoothing and debt in whole numbers."""

import numpy as np

from tests.pools import ints, ppm
from tokenweir.core.smooth import debt, decay, smooth


def test_a_step_takes_three_tenths_of_what_is_new() -> None:
    assert smooth(ints(1000), ints(2000), ppm(0.3)).tolist() == [1300]  # 700 + 600


def test_a_figure_decays_to_exactly_zero() -> None:
    assert decay(ints(1000), ppm(0.3), 2).tolist() == [490]
    assert decay(ints(10**12), ppm(0.3), 120).tolist() == [0]


def test_the_largest_figure_does_not_overflow() -> None:
    assert smooth(ints(9 * 10**12), ints(9 * 10**12), ppm(0.3)).tolist() == [9 * 10**12]


def test_service_below_the_baseline_adds_to_the_debt() -> None:
    # Wants 150, has a baseline of 100, gets 40: short by 60 %, of which a tenth counts.
    assert debt(ints(0), ints(150), ints(40), ints(100), ppm(0.1)).tolist() == [60_000]


def test_service_above_the_baseline_pays_it_back() -> None:
    # 0.9 · 0.5 + 0.1 · (100 - 150)/100 = 0.4
    assert debt(ints(500_000), ints(150), ints(150), ints(100), ppm(0.1)).tolist() == [400_000]


def test_who_asks_for_less_than_its_baseline_and_gets_it_is_owed_less_and_less() -> None:
    assert debt(ints(500_000), ints(30), ints(30), ints(100), ppm(0.1)).tolist() == [450_000]


def test_debt_is_never_negative() -> None:
    assert debt(ints(0), ints(1000), ints(1000), ints(100), ppm(0.1)).tolist() == [0]


def test_who_has_no_baseline_is_owed_nothing() -> None:
    assert debt(ints(7), ints(1000), ints(0), ints(0), ppm(0.1)).tolist() == [0]


def test_extreme_figures_do_not_overflow() -> None:
    most = np.full(1, 10**12)
    assert debt(ints(10**6), most, ints(0), most, ppm(0.1)).tolist() == [1_000_000]
    assert debt(ints(0), most, most, ints(1), ppm(0.1)).tolist() == [0]
