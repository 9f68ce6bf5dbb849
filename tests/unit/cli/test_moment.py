"""Moments as people write them."""

import pytest

from tokenweir.cli.moment import read_moment
from tokenweir.errors import BadInput

NOW = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (None, None),
        ("30min", NOW - 1_800_000),
        ("2h", NOW - 7_200_000),
        ("2027-01-15T08:00", NOW),
        ("2027-01-15T09:00+01:00", NOW),
        ("2027-01-15", NOW - 8 * 3_600_000),
        ("1800000001000", NOW + 1_000),
        ("chat@1800000001000", NOW + 1_000),
    ],
)
def test_a_moment_is_so_long_ago_a_time_or_a_decision(text: str | None, wanted: int | None) -> None:
    assert read_moment("--from", text, NOW) == wanted


def test_another_text_is_refused_with_what_is_allowed() -> None:
    with pytest.raises(BadInput, match=r"--from: value 'noon': allowed is .* ago; a time"):
        read_moment("--from", "noon", NOW)
