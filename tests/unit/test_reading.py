"""S1: each message is folded exactly once, in the order of the log."""

from hypothesis import given
from hypothesis import strategies as st

from streams.reading import judge


def test_s1_the_expected_message_is_next() -> None:
    assert judge(next_offset=7, offset=7, generation=3, current=3) == "next"


def test_s1_a_message_below_the_expected_one_is_a_repeat() -> None:
    assert judge(next_offset=7, offset=6, generation=3, current=3) == "repeat"


def test_s1_a_message_above_the_expected_one_shows_a_hole() -> None:
    assert judge(next_offset=7, offset=9, generation=3, current=3) == "ahead"


def test_s1_a_message_of_another_generation_is_stale_whatever_its_offset() -> None:
    assert {judge(7, offset, generation, 3) for offset in (6, 7, 9) for generation in (2, 4)} == {
        "stale"
    }


@given(
    st.lists(
        st.tuples(st.integers(min_value=0, max_value=9), st.integers(min_value=1, max_value=2))
    )
)
def test_s1_whatever_is_delivered_folds_each_offset_once_and_in_order(
    delivered: list[tuple[int, int]],
) -> None:
    """As `streams.folding` acts on the verdicts, with generation 2 as the consumer's."""
    folded: list[int] = []
    for offset, generation in delivered:
        verdict = judge(len(folded), offset, generation, 2)
        if verdict == "ahead":
            folded += range(len(folded), offset)
        if verdict in ("ahead", "next"):
            folded.append(offset)
    assert folded == list(range(len(folded)))
    assert all(offset in folded for offset, generation in delivered if generation == 2)
