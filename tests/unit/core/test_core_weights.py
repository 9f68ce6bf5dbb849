"""w = w_class / (1 + 0.131·SLO) / (1 + 0.1·burst) · (1 + 4·debt)."""

import pytest

from tests.pools import ints, ppm, spec, tenant, terms
from tokenweir.core.weights import weights
from tokenweir.records.spec import ServiceClass

FACTORS = spec().weights


def weight(
    service_class: ServiceClass, slo_s: float = 0.0, burst: float = 0.0, debt: float = 0.0
) -> float:
    some = terms(tenant("a", service_class, 100, slo_s=slo_s))
    found = weights(some, FACTORS, ints(0, ppm(burst)), ints(0, ppm(debt)))
    return int(found[1]) / 1_000_000


def test_the_published_weights_come_out() -> None:
    """Token Pools: 100 at an SLO of 30 s is 20.3, and with a debt of 0.775 83.2."""
    assert weight("elastic", 30) == pytest.approx(20.28, abs=0.01)  # 100 / 4.93
    assert weight("elastic", 30, debt=0.775) == pytest.approx(83.16, abs=0.01)  # * 4.1


def test_a_tight_slo_hardly_lowers_the_weight() -> None:
    assert weight("elastic", 0.5) == pytest.approx(93.85, abs=0.01)  # 100 / 1.0655


def test_without_anything_it_is_the_class_weight() -> None:
    assert weight("dedicated") == 1000
    assert weight("guaranteed") == 500
    assert weight("elastic") == 100
    assert weight("spot") == 1
    assert weight("preemptible") == 0.1


def test_a_lasting_burst_lowers_it() -> None:
    assert weight("elastic", burst=1.0) == pytest.approx(100 / 1.1, abs=1e-6)


def test_it_is_never_nothing_and_never_more_than_sums_can_hold() -> None:
    assert weight("preemptible", 3600, burst=1000.0) > 0
    assert weight("dedicated", debt=10**9) == 10**7
