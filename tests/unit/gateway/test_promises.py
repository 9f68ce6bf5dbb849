"""When to come again, where what a refusal was measured by will not last."""

from tests.unit.gateway.made import ask, give, obeying, reason
from tokenweir.gateway.pool import PoolGate
from tokenweir.gateway.request import Request

# 100 tokens/s, so each of these is ten seconds of it.
LARGE = 1000


def told(request: Request) -> int | None:
    assert request.status == "refused"
    assert request.denial is not None
    return request.denial.retry_ms


def crowd(gate: PoolGate, now_ms: int, size: int = 100) -> list[int | None]:
    """What a tenant's requests are told that come at once, after the first."""
    ask(gate, now_ms, "spo", LARGE)
    return [told(ask(gate, now_ms, "spo", LARGE)) for _ in range(size)]


def test_a_crowd_at_the_pot_is_told_when_the_next_decision_has_answered_it() -> None:
    gate = obeying(pot=(100, 100))
    #  1 100 asked   1 600 reported at the latest   2 000 decided   2 250 obeyed at the latest
    assert crowd(gate, 1100) == [1150] * 100
    give(gate, 2000, ("spo", 1_000_000, 1_000_000, 0), pot=(100, 100))
    states = [ask(gate, 2250, "spo", LARGE).state for _ in range(100)]
    assert states == ["admitted"] * 100


def test_who_comes_too_late_for_a_report_is_told_the_decision_after() -> None:
    gate = obeying(pot=(100, 100))
    assert crowd(gate, 1600) == [1650] * 100


def test_a_decision_is_expected_as_late_as_the_newest_was() -> None:
    gate = obeying(pot=(100, 100))
    give(gate, 1000, heard_ms=1300, pot=(100, 100))
    assert gate.leases.late_ms == 300
    assert crowd(gate, 1400) == [600 + 300 + 250] * 100


def test_a_place_at_the_pot_that_comes_sooner_is_told_and_booked() -> None:
    gate = obeying(pot=(100, 100))
    ask(gate, 1100, "spo", 150)
    #  50 are owed, and the second is behind 40 more; a third's turn would be after the decision
    assert [told(ask(gate, 1100, "spo", 40)) for _ in range(3)] == [501, 901, 1150]


def test_a_lease_that_pays_a_request_in_a_minute_tells_places_however_far() -> None:
    gate = obeying(("spo", 100, 100, 0))
    places = crowd(gate, 1000)
    assert places[:2] == [9001, 19_001]
    assert places[-1] == 9001 + 99 * 10_000


def test_a_lease_that_hardly_flows_tells_when_it_ends() -> None:
    gate = obeying(("spo", 10, 10, 0))
    assert crowd(gate, 1000, 2) == [15_000, 15_000]
    #  it lives for 15 s: by then the refusals have been reported, and it is another
    give(gate, 15_000, ("spo", 10_000, 10_000, 0))
    assert ask(gate, 16_000, "spo", LARGE).state == "admitted"
    assert reason(ask(gate, 16_000, "spo", 10 * LARGE)) == "admitted"
