"""How long a request may wait: its class's time, and core classes until a lease could grow (L8)."""

from typing import TYPE_CHECKING

from tokenweir.gateway.reasons import Denial
from tokenweir.gateway.request import Request
from tokenweir.gateway.stance import CORE, CORE_WAIT

if TYPE_CHECKING:
    from tokenweir.gateway.pool import PoolGate


def patience(gate: "PoolGate", request: Request, denial: Denial) -> int:
    """How long it may wait, in ms: core classes as long as a lease needs to grow."""
    if not denial.may_wait:
        return 0
    longest = gate.stances[request.subject.rank].longest_wait_ms
    if request.subject.rank >= CORE:
        longest = max(longest, CORE_WAIT * gate.interval_ms)
    return longest if request.timeout_ms is None else min(longest, request.timeout_ms)


def answered_by(gate: "PoolGate", now_ms: int) -> int:
    """The boundary whose decision must be there before a core request may be refused: the third
    after it asked. The first counts it, others shrink and confirm, and then its lease grows.
    """
    pool_ms = gate.clock.at(now_ms) or 0
    return (pool_ms // gate.interval_ms + CORE_WAIT) * gate.interval_ms


def prolonged(gate: "PoolGate", request: Request, now_ms: int) -> bool:
    """Its deadline has come; True when it waits on, since decisions are late.

    A core request is not refused before the decision that answers it has been obeyed, and its
    tokens have flowed for an interval. The leases' end makes late decisions a silence (L7), and
    then it is over; so it is when its own time-out has come.
    """
    leases = gate.leases
    if request.subject.rank < CORE or not request.answer_ms:
        return False
    if leases.phase != "lease" or (gate.clock.at(now_ms) or 0) >= leases.expires_ms:
        return False
    until_ms = now_ms + gate.interval_ms
    if leases.at_ms >= request.answer_ms:
        request.answer_ms = 0  # the last time that it waits on
        until_ms = leases.since_ms + gate.interval_ms
    if request.timeout_ms is not None:
        until_ms = min(until_ms, request.asked_ms + request.timeout_ms)
    if until_ms <= now_ms:
        return False
    gate.lines.prolong(request, until_ms)
    return True
