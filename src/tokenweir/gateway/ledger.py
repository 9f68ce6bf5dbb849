"""What requests hold, and how a hold ends: settled, cancelled, failed or expired."""

from typing import TYPE_CHECKING

from tokenweir.gateway.charge import charged, estimate
from tokenweir.gateway.reasons import AlreadyEnded, Denial
from tokenweir.gateway.request import Request
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
    sent_uncached, sent_cached, sent_out = (
        request.sent_uncached,
        request.sent_cached,
        request.sent_out,
    )
    if sent_out or sent_uncached or sent_cached:
        uncached = max(uncached, sent_uncached)
        cached = max(cached, sent_cached)
        out = max(out, sent_out)
    square(request, charged(gate.weights, uncached, cached, out) * 1000)
    release(gate, request)
    request.state, request.status = "ended", status
    if request.estimate is None and not estimated and status == "done":
        gate.outputs.observe(request.subject.name, request.model, out)
    gate.rows.append(
        (
            request.id,
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
            uncached - sent_uncached,
            cache_write,
            cached - sent_cached,
            out - sent_out,
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
    someone = request.subject.waiting or request.pot_share is not None
    if someone and gate.lines.freed(request, now_ms):
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
    for request in gate.holds:
        # All run equally long, so the first to come are the first to expire.
        if request.deadline_ms > now_ms:
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
            request.id,
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
    if not surplus:
        return
    request.held = cost
    if request.bucket is not None:
        request.bucket.put_back(surplus, request.epoch)
    if request.pot_share is not None:
        request.pot_share.put_back(surplus, request.pot_epoch)
    tokens = surplus // 1000
    request.subject.spent -= tokens
    for window in request.windows:
        window.spent -= tokens


def release(gate: "PoolGate", request: Request) -> None:
    """It occupies nothing any more."""
    del gate.holds[request]
    subject = request.subject
    subject.in_flight -= 1
    subject.sequences -= request.sequences
    subject.kv_bytes -= request.kv_bytes
    if request.pot_share is not None:
        gate.pot_sequences -= request.sequences
        gate.pot_kv_bytes -= request.kv_bytes
