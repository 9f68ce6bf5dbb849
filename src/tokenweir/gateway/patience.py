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


def prolonged(gate: "PoolGate", request: Request, now_ms: int) -> bool:
    """Its deadline has come; True when it waits on, since decisions are late.

    A core request is not refused before three decisions that came in time have been obeyed, and
    the tokens of the last have flowed for an interval: others shrink and confirm, and then its
    lease grows. What a control plane that catches up decides at once has no confirmations in it.
    """
    leases = gate.leases
    if request.subject.rank < CORE or not request.answer or leases.phase != "lease":
        return False
    # Longer than a lease lives, late is silent (L7).
    most_ms = leases.expires_ms - leases.at_ms
    until_ms = now_ms + gate.interval_ms
    if leases.timely >= request.answer:
        request.answer = 0  # the last time that it waits on
        until_ms = leases.timely_ms + gate.interval_ms
    if request.timeout_ms is not None:
        most_ms = min(most_ms, request.timeout_ms)
    until_ms = min(until_ms, request.asked_ms + most_ms)
    if until_ms <= now_ms:
        return False
    gate.lines.prolong(request, until_ms)
    return True
