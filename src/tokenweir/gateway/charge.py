"""Charged tokens: what a request asks for, used, or is taken to have used."""

from typing import TYPE_CHECKING

from tokenweir.gateway.request import Request

if TYPE_CHECKING:
    from tokenweir.gateway.pool import PoolGate

MILLION = 1_000_000
UNKNOWN_WEIGHTS = (MILLION, MILLION, MILLION)


def charged(weights: tuple[int, int, int], uncached: int, cached: int, out: int) -> int:
    """Charged tokens of a usage: its kinds by their weights, rounded down."""
    return (uncached * weights[0] + cached * weights[1] + out * weights[2]) // MILLION


def asked(gate: "PoolGate", request: Request) -> int:
    """Charged tokens that a request without an estimate asks for: input and expected output."""
    out = gate.outputs.expected(request.subject.name, request.model, request.max_tokens)
    request.expected_out = out
    return charged(gate.weights, request.input_tokens or 0, 0, out)


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
        out = request.out or (None if request.uncached or cached else _expected(request))
    seen = charged(gate.weights, uncached or 0, cached, out or 0)
    rest = max(request.cost // 1000 - seen, 0) * MILLION
    if uncached is None:
        # Which kind it was is not known: the sum is right, and the row is marked.
        uncached = max(request.uncached, -(-rest // max(gate.weights[0], 1)))
    elif out is None:
        out = -(-rest // max(gate.weights[2], 1))
    return uncached, cached, out or 0


def _expected(request: Request) -> int | None:
    return request.max_tokens if request.estimate is not None else request.expected_out
