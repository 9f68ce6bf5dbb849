from tokenweir.history.sequences import KEPT_MS, Sequences


def test_a_sequence_that_is_not_above_the_last_is_a_repeat() -> None:
    """R1."""
    known = Sequences()
    assert known.take("p", "g", 1, 10) == 0
    assert known.take("p", "g", 1, 11) is None
    assert known.take("p", "g", 2, 12) == 0
    assert known.take("p", "g", 1, 13) is None


def test_a_hole_is_counted() -> None:
    known = Sequences()
    known.take("p", "g", 1, 10)
    assert known.take("p", "g", 5, 11) == 3


def test_gateways_and_pools_count_apart() -> None:
    known = Sequences()
    assert known.take("p", "g", 1, 10) == 0
    assert known.take("p", "h", 1, 10) == 0
    assert known.take("q", "g", 1, 10) == 0


def test_a_last_sequence_is_kept_for_24_hours_of_pool_time() -> None:
    known = Sequences()
    known.take("p", "g", 9, 0)
    assert known.take("p", "g", 9, KEPT_MS) is None
    assert known.take("p", "g", 1, KEPT_MS + 1) == 0


def test_an_append_time_that_steps_back_does_not_forget() -> None:
    known = Sequences()
    known.take("p", "g", 3, KEPT_MS)
    assert known.take("p", "g", 3, 5) is None
    assert known.clock_ms == {"p": KEPT_MS}
