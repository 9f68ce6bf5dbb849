"""The ring of seconds: window 4 s, grace 2 s, and two more for the seconds at both ends."""

import numpy as np

from tests.pools import ints
from tokenweir.core.window import (
    BUDGET_TOKENS,
    Window,
    add_flow,
    add_tokens,
    covered,
    new_window,
    roll,
)


def used(window: Window, at_ms: int, window_s: int = 4) -> int:
    return int(covered(window, at_ms, window_s)[0].sum())


def test_tokens_are_in_the_window_for_as_long_as_it_is() -> None:
    #  second   0   1   2   3   4   5
    #           ├── 4 s ────────┤
    window = new_window(1, 4, 2)
    add_tokens(window, ints(0), ints(900), ints(7))
    assert used(window, 1_000) == 7
    roll(window, 4_000)
    assert used(window, 4_000) == 7
    assert used(window, 5_000) == 0


def test_late_tokens_find_their_second() -> None:
    window = new_window(1, 4, 2)
    roll(window, 5_500)
    add_tokens(window, ints(0), ints(2_100), ints(7))
    assert used(window, 6_000) == 7  # seconds 2 to 5
    assert used(window, 7_000) == 0


def test_tokens_that_are_too_late_are_in_no_second() -> None:
    window = new_window(1, 4, 2)
    roll(window, 20_000)
    add_tokens(window, ints(0), ints(12_999), ints(7))
    assert int(window.tokens.sum()) == 0


def test_tokens_of_the_future_are_in_no_second() -> None:
    window = new_window(1, 4, 2)
    add_tokens(window, ints(0), ints(1_000), ints(7))
    assert int(window.tokens.sum()) == 0


def test_two_rows_of_one_tenant_add_up() -> None:
    window = new_window(2, 4, 2)
    add_tokens(window, ints(1, 1, 0), ints(0, 0, 0), ints(3, 4, 5))
    assert window.tokens[0].tolist() == [5, 7]


def test_a_long_silence_empties_the_ring() -> None:
    window = new_window(1, 4, 2)
    add_tokens(window, ints(0), ints(0), ints(7))
    roll(window, 3_600_000)
    assert int(window.tokens.sum()) == 0
    assert window.newest == 3600


def test_time_that_steps_back_changes_nothing() -> None:
    window = new_window(1, 4, 2)
    roll(window, 9_000)
    add_tokens(window, ints(0), ints(9_000), ints(7))
    roll(window, 3_000)
    assert (window.newest, int(window.tokens.sum())) == (9, 7)


def test_a_rate_is_integrated_over_parts_of_seconds() -> None:
    #  10 a ms from 0.5 s to 2.25 s
    window = new_window(1, 4, 2)
    rates = np.zeros(7, np.int64)
    rates[BUDGET_TOKENS] = 10
    roll(window, 2_250)
    add_flow(window, rates, 500, 2_250)
    assert window.flows[BUDGET_TOKENS, :4].tolist() == [5_000, 10_000, 2_500, 0]


def test_an_integral_over_a_long_time_keeps_the_ring_alone() -> None:
    window = new_window(1, 4, 2)
    rates = np.ones(7, np.int64)
    roll(window, 100_000)
    add_flow(window, rates, 0, 100_000)
    assert int(window.flows[BUDGET_TOKENS].sum()) == 7_000  # 8 covered, one of them just begun


def test_a_window_that_ends_inside_a_second_counts_it_whole() -> None:
    window = new_window(1, 4, 2)
    roll(window, 4_250)
    add_tokens(window, ints(0, 0), ints(0, 4_100), ints(1, 2))
    assert used(window, 4_250) == 2  # seconds 1 to 4
    assert used(window, 4_000) == 1  # seconds 0 to 3
