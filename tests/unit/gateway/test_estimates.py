import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.gateway.made import ask, obeying, settle
from tokenweir.gateway import ledger
from tokenweir.gateway.estimates import LEAST, MOST, QUANTILE, UNKNOWN_OUT, Estimates, Outputs
from tokenweir.gateway.request import Request

LEASE = ("ela", 100_000, 100_000, 0)


@given(st.lists(st.integers(0, 1 << 40), min_size=LEAST, max_size=MOST - 1), st.integers(1, 100))
def test_a_quantile_is_never_too_small_and_less_than_a_sixteenth_too_large(
    outputs: list[int], percent: int
) -> None:
    kind = Outputs()
    for tokens in outputs:
        kind.add(tokens)
    rank = -(-(len(outputs) + 1) * percent // 100)
    exact = sorted(outputs)[min(rank, len(outputs)) - 1]
    told = kind.quantile(percent)
    assert told is not None
    assert exact <= told <= exact + exact // 16


@pytest.mark.parametrize("seen", range(LEAST, 60))
def test_the_next_output_is_within_the_estimate_as_often_as_it_says(seen: int) -> None:
    """Whatever outputs are like, the next is as likely to take each place among those seen."""
    within = 0
    for place in range(seen + 1):
        kind = Outputs()
        for tokens in range(seen + 1):
            if tokens != place:
                kind.add(10 * tokens)
        told = kind.quantile(QUANTILE)
        assert told is not None
        within += 10 * place <= told
    assert within * 100 >= QUANTILE * (seen + 1)


def test_up_to_31_tokens_are_told_exactly() -> None:
    kind = Outputs()
    for tokens in range(32):
        kind.add(tokens)
    assert [kind.quantile(percent) for percent in (50, 90, 100)] == [16, 29, 31]


def test_what_is_long_ago_is_forgotten() -> None:
    kind = Outputs()
    for _ in range(10_000):
        kind.add(5000)
    for _ in range(MOST * 4):
        kind.add(10)
    assert kind.quantile(QUANTILE) == 10
    assert sum(kind._counts.values()) < MOST


def test_before_nine_outputs_max_tokens_counts() -> None:
    estimates = Estimates()
    for _ in range(LEAST - 1):
        estimates.observe("acme", "m", 30)
    assert estimates.expected("acme", "m", 700) == 700
    assert estimates.expected("acme", "m", None) == UNKNOWN_OUT
    estimates.observe("acme", "m", 30)
    assert estimates.expected("acme", "m", 700) == 30
    assert estimates.expected("acme", "m", 20) == 20
    assert estimates.expected("acme", "other", 700) == 700


def test_no_more_kinds_are_remembered_than_there_is_room_for() -> None:
    estimates = Estimates(most=2)
    for _ in range(LEAST):
        for model in ("a", "b"):
            estimates.observe("acme", model, 30)
    estimates.observe("acme", "a", 30)
    estimates.observe("acme", "c", 30)
    assert len(estimates) == 2
    assert estimates.expected("acme", "a", None) == 30
    assert estimates.expected("acme", "b", None) == UNKNOWN_OUT


def test_a_request_without_an_estimate_asks_for_its_input_and_what_came_before() -> None:
    gate = obeying(LEASE)
    for out in range(1, 21):
        request = ask(gate, 1000, "ela", None, input_tokens=50, max_tokens=1000, model="m")
        ledger.settle(gate, request, 1000, 50, 0, out)
    request = ask(gate, 1000, "ela", None, input_tokens=50, max_tokens=1000, model="m")
    assert request.cost == (50 + 19) * 1000  # of 21 such requests 19 produce no more than that


def test_a_usage_that_was_not_given_teaches_nothing() -> None:
    gate = obeying(LEASE)
    for _ in range(LEAST):
        ledger.leave(gate, ask(gate, 1000, "ela", None, input_tokens=5, max_tokens=9), 1000)
        ledger.cancel(gate, ask(gate, 1000, "ela", None, input_tokens=5, max_tokens=9), 1000)
        settle(gate, ask(gate, 1000, "ela", 14), 1000, 14)
    assert len(gate.outputs) == 0


@pytest.mark.parametrize("tenant", ["x", "y"])
def test_unknown_names_are_one_tenant_here_too(tenant: str) -> None:
    gate = obeying(pot=(10_000, 10_000))
    for _ in range(LEAST):
        request = Request("who?", input_tokens=1, max_tokens=100)
        gate.ask(request, 1000)
        ledger.settle(gate, request, 1000, 1, 0, 4)
    assert ask(gate, 1000, tenant, None, input_tokens=1, max_tokens=100).cost == 5000
