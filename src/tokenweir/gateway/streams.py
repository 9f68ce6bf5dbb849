"""Streams: what they produce is reported as it is produced, not when they end (PROTOCOL T6)."""

from typing import TYPE_CHECKING

from tokenweir.gateway.charge import charged
from tokenweir.gateway.ledger import square
from tokenweir.gateway.reasons import AlreadyEnded
from tokenweir.gateway.request import Request
from tokenweir.gateway.rows import Row

if TYPE_CHECKING:
    from tokenweir.gateway.pool import PoolGate


def produce(gate: "PoolGate", request: Request, uncached: int, cached: int, out: int) -> None:
    """Note what a stream has produced since the last call."""
    if request.state not in ("admitted", "suspended"):
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
            rows.append(part(gate, request, now_ms))
    return rows


def part(gate: "PoolGate", request: Request, now_ms: int, reason: str = "") -> Row:
    """What it has produced, or waited, since the last row that told it."""
    uncached, cached, out = request.uncached, request.cached, request.out
    cost = charged(gate.weights, uncached, cached, out) * 1000
    if cost > request.held:
        square(request, cost)
    row: Row = (
        request.label,
        request.attempt,
        request.tenant,
        request.user,
        request.model,
        request.operation,
        request.provider_tier,
        reason,
        "part",
        request.flow,
        request.priority,
        uncached - request.sent[0],
        0,
        cached - request.sent[1],
        out - request.sent[2],
        0,
        False,
        False,
        0,
        request.wait_ms,
        now_ms - request.started_ms,
        now_ms,
        request.decision_ms,
    )
    request.sent = (uncached, cached, out)
    request.wait_ms = 0  # rows are increments
    return row
