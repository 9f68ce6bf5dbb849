"""What requests hold, and how a hold ends: settled, cancelled, failed or expired."""

from typing import TYPE_CHECKING

from tokenweir.gateway.bucket import Bucket
from tokenweir.gateway.reasons import AlreadyEnded, Denial
from tokenweir.gateway.request import Request
from tokenweir.gateway.rows import Row
from tokenweir.records.usage import Status

if TYPE_CHECKING:
    from tokenweir.gateway.pool import PoolGate

MILLION = 1_000_000
UNKNOWN_WEIGHTS = (MILLION, MILLION, MILLION)


def charged(weights: tuple[int, int, int], uncached: int, cached: int, out: int) -> int:
    """Charged tokens of a usage: its kinds by their weights, rounded down."""
    return (uncached * weights[0] + cached * weights[1] + out * weights[2]) // MILLION


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
        raise AlreadyEnded(request.id, request.status)
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
    _release(gate, request)
    request.state, request.status = "ended", status
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
    if len(gate.lines):
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


def asked(weights: tuple[int, int, int], request: Request) -> int:
    """Charged tokens that a request asks for: its estimate, or its input and longest answer."""
    if request.estimate is not None:
        return request.estimate
    return charged(weights, request.input_tokens or 0, 0, request.max_tokens or 0)


def estimate(
    gate: "PoolGate",
    request: Request,
    uncached: int | None = None,
    cached: int = 0,
    out: int | None = None,
) -> tuple[int, int, int]:
    """What a request is taken to have used where its usage was not given (None).

    Its input, and what it was seen to produce; all that was held when nothing was seen.
    """
    cached = max(cached, request.cached)
    if uncached is None and request.input_tokens is not None:
        uncached = max(request.uncached, request.input_tokens - cached)
    if out is None:
        out = request.out or (None if request.uncached or cached else request.max_tokens)
    seen = charged(gate.weights, uncached or 0, cached, out or 0)
    rest = max(request.cost // 1000 - seen, 0) * MILLION
    if uncached is None:
        # Which kind it was is not known: the sum is right, and the row is marked.
        uncached = max(request.uncached, -(-rest // max(gate.weights[0], 1)))
    elif out is None:
        out = -(-rest // max(gate.weights[2], 1))
    return uncached, cached, out or 0


def produce(gate: "PoolGate", request: Request, uncached: int, cached: int, out: int) -> None:
    """Note what a stream has produced since the last call."""
    if request.state != "admitted":
        raise AlreadyEnded(request.id, request.status)
    request.uncached += uncached
    request.cached += cached
    request.out += out
    mark(gate, request)


def mark(gate: "PoolGate", request: Request) -> None:
    """The request has something for the next report."""
    if not request.dirty:
        request.dirty = True
        gate.streaming.append(request)


def parts(gate: "PoolGate", now_ms: int) -> list[Row]:
    """A row for each request that has produced, or was admitted after a wait, since the last."""
    streaming, gate.streaming = gate.streaming, []
    rows = []
    for request in streaming:
        request.dirty = False
        if request.state == "admitted":
            rows.append(_part(gate, request, now_ms))
    return rows


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


def square(request: Request, cost: int) -> None:
    """Make what is charged for a request `cost` milli-tokens."""
    surplus = request.held - cost
    if not surplus:
        return
    request.held = cost
    if request.bucket is not None:
        _adjust(request.bucket, surplus, request.epoch)
    if request.pot_share is not None:
        _adjust(request.pot_share, surplus, request.pot_epoch)
    tokens = surplus // 1000
    request.subject.spent -= tokens
    for window in request.windows:
        window.spent -= tokens


def _adjust(bucket: Bucket, surplus: int, epoch: int) -> None:
    if surplus > 0:
        bucket.put_back(surplus, epoch)
    else:
        bucket.level += surplus


def _release(gate: "PoolGate", request: Request) -> None:
    del gate.holds[request]
    subject = request.subject
    subject.in_flight -= 1
    subject.sequences -= request.sequences
    subject.kv_bytes -= request.kv_bytes


def _part(gate: "PoolGate", request: Request, now_ms: int) -> Row:
    uncached, cached, out = request.uncached, request.cached, request.out
    cost = charged(gate.weights, uncached, cached, out) * 1000
    if cost > request.held:
        square(request, cost)
    row: Row = (
        request.id,
        request.attempt,
        request.tenant,
        request.user,
        request.model,
        request.operation,
        request.provider_tier,
        "",
        "part",
        request.flow,
        request.priority,
        uncached - request.sent_uncached,
        0,
        cached - request.sent_cached,
        out - request.sent_out,
        0,
        False,
        False,
        0,
        request.wait_ms,
        now_ms - request.started_ms,
        now_ms,
        request.decision_ms,
    )
    request.sent_uncached, request.sent_cached, request.sent_out = uncached, cached, out
    request.wait_ms = 0  # rows are increments
    return row
