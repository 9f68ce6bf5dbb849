"""What requests hold, and how a hold ends: settled, cancelled, failed or expired."""

from operator import sub
from typing import TYPE_CHECKING

from tokenweir.gateway.charge import MILLION, estimate
from tokenweir.gateway.reasons import AlreadyEnded, Denial
from tokenweir.gateway.request import NOTHING, Request
from tokenweir.records.usage import Status

if TYPE_CHECKING:
    from tokenweir.gateway.pool import PoolGate


def settle(
    gate: "PoolGate",
    request: Request,
    now_ms: int,
    uncached: int,
    cached: int,
    out: int,
    cache_write: int = 0,
    status: Status = "done",
    estimated: bool = False,
    error: bool = False,
    reason: str = "",
) -> None:
    """Replace the estimate with what the request used, and end it.

    What earlier reports said was produced is not taken back. Raises `AlreadyEnded` when it has
    ended: nothing is charged twice.
    """
    if request.state != "admitted":
        _reinstate(gate, request)
    more_uncached, more_cached, more_out = uncached, cached, out
    if request.sent is not NOTHING:
        sent = request.sent
        uncached, cached, out = map(max, (uncached, cached, out), sent)
        more_uncached, more_cached, more_out = map(sub, (uncached, cached, out), sent)
    # As `charged`, `release` and `square`: a request has no time to call them.
    w_uncached, w_cached, w_out = gate.weights
    cost = (uncached * w_uncached + cached * w_cached + out * w_out) // MILLION * 1000
    subject = request.subject
    del gate.holds[request]
    surplus = request.held - cost
    if request.pot_share is not None or request.windows:
        square(request, cost)
    elif surplus:
        request.held = cost
        subject.charged -= surplus
        bucket = request.bucket
        if bucket is not None:
            bucket.put_back(surplus, request.epoch)
    subject.in_flight -= 1
    subject.sequences -= request.sequences
    subject.kv_bytes -= request.kv_bytes
    if request.pot_share is not None:
        leave_pot(gate, request)
    request.state, request.status = "ended", status
    if request.estimate is None and not estimated and status == "done":
        gate.outputs.observe(subject.name, request.model, out)
    gate.rows.append(
        (
            request.label,
            request.attempt,
            request.tenant,
            request.user,
            request.model,
            request.operation,
            request.provider_tier,
            reason,
            status,
            request.flow,
            request.priority,
            more_uncached,
            cache_write,
            more_cached,
            more_out,
            0,
            estimated,
            error,
            request.kv_bytes,
            request.wait_ms,
            now_ms - request.started_ms,
            now_ms,
            request.decision_ms,
        )
    )
    if subject.waiting or request.pot_share is not None:
        _free(gate, request, now_ms)


def _free(gate: "PoolGate", request: Request, now_ms: int) -> None:
    """Somebody may have waited for what it held."""
    if gate.lines.freed(request, now_ms):
        gate.next_ms = now_ms


def cancel(gate: "PoolGate", request: Request, now_ms: int, reason: str = "") -> None:
    """Return what the request holds; only what it has produced stays charged."""
    settle(
        gate,
        request,
        now_ms,
        request.uncached,
        request.cached,
        request.out,
        status="cancelled",
        reason=reason,
    )


def leave(
    gate: "PoolGate",
    request: Request,
    now_ms: int,
    status: Status = "done",
    error: bool = False,
    reason: str = "",
) -> None:
    """End a request whose usage nobody gave: an estimate, marked as one, never 0."""
    uncached, cached, out = estimate(gate, request)
    settle(gate, request, now_ms, uncached, cached, out, 0, status, True, error, reason)


def expire(gate: "PoolGate", now_ms: int) -> list[Request]:
    """End the requests that have run longer than the longest request."""
    late = []
    begun_ms = now_ms - gate.longest_request_ms
    for request in gate.holds:
        # All may run equally long, so the first to come are the first to expire.
        if request.started_ms > begun_ms:
            break
        late.append(request)
    for request in late:
        leave(gate, request, now_ms, "expired", True, "longest_request")
    return late


def refuse(gate: "PoolGate", request: Request, denial: Denial, now_ms: int) -> None:
    """End a request that was not admitted, and count it."""
    request.state, request.status, request.denial = "ended", "refused", denial
    request.subject.refused[denial.reason] += 1
    gate.rows.append(
        (
            request.label,
            request.attempt,
            request.tenant,
            request.user,
            request.model,
            request.operation,
            request.provider_tier,
            denial.reason,
            "refused",
            request.flow,
            request.priority,
            0,
            0,
            0,
            0,
            request.cost // 1000,
            False,
            False,
            0,
            now_ms - request.asked_ms,
            0,
            now_ms,
            gate.decision_ms,
        )
    )


def _reinstate(gate: "PoolGate", request: Request) -> None:
    """A suspended request ends after all: it stands as one that runs."""
    if request.state != "suspended":
        raise AlreadyEnded(request.id, request.status)
    del gate.suspended[request]
    subject = request.subject
    subject.suspended -= 1
    subject.in_flight += 1
    subject.sequences += request.sequences
    subject.kv_bytes += request.kv_bytes
    if request.pot_share is not None:
        gate.pot_sequences += request.sequences
        gate.pot_kv_bytes += request.kv_bytes
    gate.holds[request] = None


def square(request: Request, cost: int) -> None:
    """Make what is charged for a request `cost` milli-tokens."""
    surplus = request.held - cost
    request.held = cost
    request.subject.charged -= surplus
    if request.bucket is not None:
        request.bucket.put_back(surplus, request.epoch)
    if request.pot_share is not None:
        request.pot_share.put_back(surplus, request.pot_epoch)
    for window in request.windows:
        window.spent -= surplus // 1000


def leave_pot(gate: "PoolGate", request: Request) -> None:
    """It occupies nothing of what the starter pot may."""
    gate.pot_sequences -= request.sequences
    gate.pot_kv_bytes -= request.kv_bytes


def release(gate: "PoolGate", request: Request, cost: int) -> None:
    """It occupies nothing any more, and what is charged for it becomes `cost` milli-tokens."""
    del gate.holds[request]
    if request.held != cost:
        square(request, cost)
    subject = request.subject
    subject.in_flight -= 1
    subject.sequences -= request.sequences
    subject.kv_bytes -= request.kv_bytes
    if request.pot_share is not None:
        leave_pot(gate, request)
