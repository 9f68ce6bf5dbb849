from collections import Counter
from pathlib import Path
from random import Random

import pytest

from streams.demo.arrivals import read, share, write
from streams.demo.backend import Backend
from streams.demo.traffic import (
    CHAT,
    CODE,
    LONG_CHAT,
    Traffic,
    mean_tokens,
    part_at,
    times,
    tokens_at,
)
from streams.demo.workload import afternoon, phase_at


@pytest.mark.parametrize(
    ("traffic", "tokens_in", "tokens_out"),
    [(CHAT, 1155, 211), (CODE, 2048, 28), (LONG_CHAT, 12_035, 343)],
)
def test_fitted_lengths_have_the_means_of_their_trace(
    traffic: Traffic, tokens_in: int, tokens_out: int
) -> None:
    uncached, cached, out = mean_tokens(traffic)

    assert uncached + cached == pytest.approx(tokens_in, rel=0.05)
    assert out == pytest.approx(tokens_out, rel=0.2)


def test_lengths_are_read_between_the_quantiles_on_a_logarithmic_scale() -> None:
    assert tokens_at(CHAT.input, 0.0) == 2
    assert tokens_at(CHAT.input, 0.5) == 1020
    assert tokens_at(CHAT.input, 0.375) == 636  # sqrt(396 · 1020)
    assert part_at(LONG_CHAT.cached, 0.375) == pytest.approx((0.069 + 0.363) / 2)


@pytest.mark.parametrize("traffic", [CHAT, CODE])
def test_arrivals_are_as_many_and_as_bursty_as_in_the_trace(traffic: Traffic) -> None:
    seconds = 20_000
    counts = Counter(
        int(at_s) for at_s in times(traffic, traffic.requests_per_s, seconds, Random(1))
    )
    per_s = [counts[second] for second in range(seconds)]
    mean = sum(per_s) / seconds
    variance = sum((count - mean) ** 2 for count in per_s) / seconds

    assert mean == pytest.approx(traffic.requests_per_s, rel=0.1)
    # Batches that cross a second's edge take a little away.
    assert 0.7 * traffic.dispersion < variance / mean < 1.1 * traffic.dispersion


def test_the_same_seed_gives_the_same_afternoon_and_another_one_another() -> None:
    assert afternoon(1, 10) == afternoon(1, 10)
    assert afternoon(1, 10) != afternoon(2, 10)


def test_the_afternoon_is_in_order_and_inside_its_time() -> None:
    moments = [arrival.at_us for arrival in afternoon(1, 20)]

    assert moments == sorted(moments)
    assert moments[0] >= 0
    assert moments[-1] < 20_000_000


def test_evals_starts_late_and_ends_early() -> None:
    evals = [arrival.at_us / 60e6 for arrival in afternoon(1, 60) if arrival.tenant == "evals"]

    assert evals[0] >= 0.2
    assert evals[-1] <= 0.85


def test_every_part_of_the_run_has_its_phase() -> None:
    assert phase_at(-1).title == "a calm afternoon"
    assert phase_at(0.2).title == "evals starts a large run"
    assert phase_at(2).title == "evals is done"


def test_gateways_get_every_request_once_between_them() -> None:
    arrivals = afternoon(1, 10)

    dealt = [arrival for gateway in range(3) for arrival in share(arrivals, gateway, 3)]

    assert sorted(dealt) == list(arrivals)


def test_a_written_load_reads_back_the_same(tmp_path: Path) -> None:
    arrivals = list(afternoon(1, 5))
    write(tmp_path / "load.csv", arrivals)

    assert read(tmp_path / "load.csv") == arrivals


def test_the_backend_takes_its_time_from_the_tokens() -> None:
    backend = Backend(first_s=1, input_s=0.01, output_s=0.1, speed=10)

    assert backend.duration_s(uncached=100, out=20) == pytest.approx(0.4)
