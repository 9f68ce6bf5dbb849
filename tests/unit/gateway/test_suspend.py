"""Revoked work in the core: when it stops, what it holds then, and when it goes on.

own time   1 000 admitted ── 2 000 revoked ── (until_ms, or 62 000) goes on ── settled
"""

from tests.unit.gateway.made import EPOCH_MS, ask, barred, give, obeying, reason, settle
from tokenweir.gateway import ledger, streams
from tokenweir.gateway.pool import PoolGate
from tokenweir.gateway.request import Request

LEASE = ("pre", 1000, 1000, 0)


def running(produced: int = 100, estimate: int = 500) -> tuple[PoolGate, Request]:
    gate = obeying(LEASE, expires_ms=10**9)
    request = ask(gate, 1000, "pre", estimate)
    streams.produce(gate, request, 0, 0, produced)
    return gate, request


def revoke(gate: PoolGate, at_ms: int, until_ms: int = 0) -> list[Request]:
    gate.hear(barred(at_ms, ("pre", "revoked", until_ms)), at_ms)
    return gate.take_revoked()


def test_running_requests_of_a_newly_revoked_tenant_are_named_once() -> None:
    gate, request = running()
    other = ask(gate, 1000, "gua", 1)
    assert revoke(gate, 2000) == [request]
    assert other.state != "ended"
    assert revoke(gate, 3000) == []


def test_what_runs_goes_on_unless_it_is_stopped_and_nothing_new_is_admitted() -> None:
    gate, request = running()
    revoke(gate, 2000)
    refused = ask(gate, 2000, "pre", 1)
    assert reason(refused) == "revoked"
    assert refused.denial is not None
    assert refused.denial.retry_ms == 60_000
    settle(gate, request, 2500, 400)
    assert request.status == "done"


def test_a_suspended_request_keeps_what_it_produced_and_returns_the_rest() -> None:
    gate, request = running(produced=100, estimate=500)
    revoke(gate, 2000)
    gate.suspend(request, 2000)
    subject = gate.subjects["pre"]
    assert (request.state, subject.in_flight, subject.sequences, subject.spent) == (
        "suspended",
        0,
        0,
        100,
    )
    row = gate.rows[-1]
    assert (row[7], row[8], row[14]) == ("revoked", "part", 100)


def test_it_goes_on_at_the_time_that_the_record_names() -> None:
    gate, request = running()
    revoke(gate, 2000, until_ms=5000)
    gate.suspend(request, 2000)
    assert gate.serve(2000) == []
    assert gate.next_ms == 5000
    assert gate.serve(4999) == []
    assert gate.serve(5000) == [request]
    settle_out(gate, request, 6000, 450)
    assert gate.subjects["pre"].spent == 450
    assert [row[14] for row in gate.rows] == [100, 350]


def test_it_goes_on_after_a_minute_where_the_record_names_no_time() -> None:
    gate, request = running()
    revoke(gate, 2000)
    gate.suspend(request, 2000)
    gate.hear(barred(10_000), 10_000)  # nobody is barred any more
    assert gate.serve(10_000) == []
    assert gate.next_ms == 62_000
    assert gate.serve(62_000) == [request]
    assert request.state == "admitted"


def test_it_stays_suspended_while_it_is_barred_or_tokens_lack() -> None:
    gate, request = running()
    revoke(gate, 2000)
    gate.suspend(request, 2000)
    assert gate.serve(2000) == []
    assert gate.serve(62_000) == []  # still in the record
    gate.hear(barred(63_000), 63_000)
    give(gate, 63_000, ("pre", 0, 0, 0), expires_ms=10**9)
    assert gate.serve(63_000) == []
    give(gate, 64_000, LEASE, expires_ms=10**9)
    assert gate.next_ms == 64_000
    assert gate.serve(64_000) == []
    assert gate.next_ms == 64_001
    assert gate.serve(64_001) == [request]


def test_the_rest_is_asked_for_and_charged_when_it_goes_on() -> None:
    gate, request = running(produced=100, estimate=500)
    revoke(gate, 2000, until_ms=5000)
    gate.suspend(request, 2000)
    gate.serve(5000)
    subject = gate.subjects["pre"]
    assert subject.bucket.level == 600_000  # a full bucket less the 400 that are left to do
    assert (subject.spent, subject.admitted, subject.in_flight) == (500, 1, 1)
    settle_out(gate, request, 5000, 300)
    assert subject.bucket.level == 800_000
    assert subject.spent == 300


def test_cancelled_work_is_lost_and_counted() -> None:
    gate, request = running(produced=100, estimate=500)
    revoke(gate, 2000)
    gate.revoke(request, 2000)
    subject = gate.subjects["pre"]
    #  what it has produced, and an estimate of its input, which nobody has told
    assert (request.status, subject.lost, subject.spent) == ("cancelled", 500, 500)
    assert gate.rows[-1][7:9] == ("revoked", "cancelled")


def test_suspended_work_that_is_given_up_is_lost() -> None:
    gate, request = running(produced=100)
    revoke(gate, 2000)
    gate.suspend(request, 2000)
    gate.abandon(request, 3000)
    subject = gate.subjects["pre"]
    assert (request.state, subject.lost, subject.spent, subject.suspended) == ("ended", 100, 100, 0)
    assert gate.suspended == {}
    assert subject.in_flight == 0


def test_a_backend_that_could_not_stop_is_charged_what_it_did() -> None:
    gate, request = running(produced=100)
    revoke(gate, 2000)
    gate.suspend(request, 2000)
    streams.produce(gate, request, 0, 0, 50)
    settle_out(gate, request, 3000, 150)
    subject = gate.subjects["pre"]
    assert (subject.spent, subject.lost, subject.in_flight, subject.sequences) == (150, 0, 0, 0)


def test_suspended_work_does_not_expire_and_ends_with_the_gateway() -> None:
    gate, request = running()
    revoke(gate, 2000)
    gate.suspend(request, 2000)
    assert gate.expire(10**7) == []
    gate.close(10**7)
    assert request.status == "cancelled"
    assert gate.clock.at(10**7) == EPOCH_MS + 10**7


def settle_out(gate: PoolGate, request: Request, now_ms: int, out: int) -> None:
    ledger.settle(gate, request, now_ms, 0, 0, out)
