import pytest

from tests.unit.gateway.made import ONE, POOL, ask, obeying, settle
from tokenweir.gateway import charge, ledger, streams
from tokenweir.gateway.pool import PoolGate
from tokenweir.gateway.reasons import AlreadyEnded
from tokenweir.gateway.request import Request
from tokenweir.records.spec import TokenWeights

LEASE = ("ela", 1000, 1000, 0)


def level(gate: PoolGate) -> int:
    return gate.subjects["ela"].bucket.level // 1000


def used(gate: PoolGate) -> tuple[int, int, int, bool]:
    """Uncached, cached, out and the mark of the last row."""
    row = gate.rows[-1]
    return row[11], row[13], row[14], row[16]


def test_settling_replaces_the_estimate() -> None:
    gate = obeying(LEASE)
    request = ask(gate, 1000, "ela", 800)
    assert level(gate) == 200
    settle(gate, request, 1000, 300)
    assert level(gate) == 700


def test_settling_more_than_the_estimate_is_owed() -> None:
    gate = obeying(LEASE)
    settle(gate, ask(gate, 1000, "ela", 100), 1000, 1500)
    assert level(gate) == -500


def test_charged_tokens_are_weighed_by_kind() -> None:
    gate = obeying(LEASE, changes={"token_weights": TokenWeights(ONE, ONE // 10, 4 * ONE)})
    request = ask(gate, 1000, "ela", 0)
    ledger.settle(gate, request, 1000, 500, 99, 10)
    assert level(gate) == 1000 - (500 + 9 + 40)


def test_settling_twice_is_an_error_and_charges_once() -> None:
    gate = obeying(LEASE)
    request = ask(gate, 1000, "ela", 100)
    settle(gate, request, 1000, 300)
    with pytest.raises(AlreadyEnded, match="done"):
        settle(gate, request, 1000, 300)
    assert level(gate) == 700
    assert len(gate.rows) == 1


def test_cancelling_returns_the_estimate() -> None:
    gate = obeying(LEASE)
    ledger.cancel(gate, ask(gate, 1000, "ela", 800), 1000)
    assert level(gate) == 1000
    assert used(gate) == (0, 0, 0, False)


def test_cancelling_keeps_what_was_produced() -> None:
    gate = obeying(LEASE)
    request = ask(gate, 1000, "ela", 800)
    streams.produce(gate, request, 0, 0, 50)
    ledger.cancel(gate, request, 1000)
    assert level(gate) == 950


def test_an_explicit_zero_is_zero_and_a_missing_usage_is_a_marked_estimate() -> None:
    gate = obeying(LEASE)
    settle(gate, ask(gate, 1000, "ela", 100), 1000, 0)
    assert used(gate) == (0, 0, 0, False)
    ledger.leave(gate, ask(gate, 1000, "ela", 100), 1000)
    assert used(gate) == (100, 0, 0, True)
    assert level(gate) == 900


def test_a_cancelled_stream_is_charged_its_input_and_what_it_produced() -> None:
    gate = obeying(LEASE)
    request = Request("ela", "bo", input_tokens=45, max_tokens=400)
    gate.ask(request, 1000)
    assert level(gate) == 555
    streams.produce(gate, request, 0, 0, 70)
    ledger.leave(gate, request, 1000, "cancelled")
    assert used(gate) == (45, 0, 70, True)
    assert level(gate) == 1000 - 115


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((None, 0, None), (45, 0, 400)),
        ((50, 0, None), (50, 0, 400)),
        ((None, 0, 7), (45, 0, 7)),
        ((None, 40, 7), (5, 40, 7)),
    ],
)
def test_what_a_backend_left_out_is_estimated(
    given: tuple[int | None, int, int | None], expected: tuple[int, int, int]
) -> None:
    gate = obeying(LEASE)
    request = Request("ela", "bo", input_tokens=45, max_tokens=400)
    gate.ask(request, 1000)
    assert charge.estimate(gate, request, *given) == expected


def test_an_estimate_without_an_input_keeps_its_sum() -> None:
    gate = obeying(LEASE, changes={"token_weights": TokenWeights(2 * ONE, ONE, 4 * ONE)})
    request = ask(gate, 1000, "ela", 100)
    assert charge.estimate(gate, request) == (50, 0, 0)
    assert charge.estimate(gate, request, 10, 0, None) == (10, 0, 20)
    streams.produce(gate, request, 0, 0, 5)
    assert charge.estimate(gate, request) == (40, 0, 5)


def test_a_hold_that_is_never_settled_expires_after_the_longest_request() -> None:
    gate = obeying(LEASE, changes={"longest_request_ms": 5000}, sequences=1)
    request = ask(gate, 1000, "ela", 100)
    assert gate.expire(5999) == []
    assert gate.expire(6000) == [request]
    assert (request.status, used(gate)) == ("expired", (100, 0, 0, True))
    assert ask(gate, 6000, "ela").state == "admitted"
    with pytest.raises(AlreadyEnded, match="expired"):
        settle(gate, request, 6001, 100)


def test_of_1000_holds_with_300_never_settled_nothing_is_outstanding_after_the_longest() -> None:
    big = ("ela", 1_000_000, 1_000_000, 0)
    gate = obeying(big, changes={"longest_request_ms": 5000})
    requests = [ask(gate, 1000, "ela", 10) for _ in range(1000)]
    for request in requests[:700]:
        settle(gate, request, 2000, 3)
    assert sum(request.held for request in gate.holds) == 300 * 10_000
    gate.expire(6000)
    assert (len(gate.holds), gate.subjects["ela"].in_flight) == (0, 0)
    assert gate.subjects["ela"].spent == 700 * 3 + 300 * 10
    assert gate.pool == POOL
