"""Figures are short, and in the units that people use."""

import pytest

from tokenweir.cli import figures


@pytest.mark.parametrize(
    ("milli", "text"),
    [
        (0, "0/s"),
        (1_500, "1.5/s"),
        (950_000, "950/s"),
        (15_250_000, "15.2k/s"),
        (250_000_000, "250k/s"),
        (1_200_000_000, "1.2M/s"),
        (10**12, "1G/s"),
    ],
)
def test_rates_are_tokens_a_second(milli: int, text: str) -> None:
    assert figures.rate(milli) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0.0s"),
        (850, "0.8s"),
        (12_000, "12s"),
        (119_999, "120s"),
        (600_000, "10min"),
        (18_000_000, "5h"),
        (259_200_000, "3d"),
    ],
)
def test_ages_have_one_unit(ms: int, text: str) -> None:
    assert figures.age(ms) == text


def test_counts_sizes_and_parts() -> None:
    assert [figures.count(value) for value in (7, 999, 20_300)] == ["7", "999", "20.3k"]
    assert [figures.size(value) for value in (5, 2**31)] == ["5B", "2GiB"]
    assert (figures.percent(731_000), figures.ratio(800_000)) == ("73%", "0.80")
