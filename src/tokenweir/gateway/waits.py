"""Who may wait instead of being refused, and when a wait ends (PROTOCOL L8)."""

from typing import TYPE_CHECKING

from tokenweir.gateway import ledger
from tokenweir.gateway.admission import admit, charge
from tokenweir.gateway.reasons import Denial
from tokenweir.gateway.request import Request
from tokenweir.gateway.stance import CORE, CORE_WAIT
from tokenweir.gateway.streams import mark
from tokenweir.gateway.subject import Subject

if TYPE_CHECKING:
    from tokenweir.gateway.pool import PoolGate

CLOSING = Denial("closing", None, False)


def blocked(gate: "PoolGate", subject: Subject) -> Denial | None:
    """Why a newcomer cannot even be tried: others of its tenant wait before it."""
    if gate.closing:
        return CLOSING
    head = gate.lines.next_of(subject)
    if head is None:
        return None
    # Nobody overtakes in a line; why the first waits is why all do.
    return Denial(head.denial.reason if head.denial else "tokens", None, True)


def hold_back(gate: "PoolGate", request: Request, denial: Denial, now_ms: int) -> None:
    """Let a request wait or refuse it; in shadow mode only count that."""
    if gate.shadow and not gate.closing:
        request.subject.would_refuse[denial.reason] += 1
        charge(gate, request, None, None, now_ms, gate.clock.at(now_ms) or 0)
        return
    patience_ms = _patience(gate, request, denial)
    if patience_ms > 0:
        if _wait(gate, request, denial, now_ms, patience_ms):
            return
        denial = Denial("queue_full", gate.interval_ms, False)
    ledger.refuse(gate, request, denial, now_ms)


def serve(gate: "PoolGate", now_ms: int) -> list[Request]:
    """Admit who may go now, refuse whose wait is over; returns both."""
    ended: list[Request] = []
    due = [_move(gate, head, now_ms, ended) for head in gate.lines.heads()]
    for request in gate.lines.overdue(now_ms):
        dismiss(gate, request, request.denial, now_ms)
        ended.append(request)
    due.append(gate.lines.first_deadline_ms())
    gate.next_ms = min((moment for moment in due if moment is not None), default=None)
    return ended


def dismiss(gate: "PoolGate", request: Request, denial: Denial | None, now_ms: int) -> None:
    """End a wait without admitting."""
    gate.lines.drop(request)
    ledger.refuse(gate, request, denial or Denial("tokens", None, False), now_ms)


def _patience(gate: "PoolGate", request: Request, denial: Denial) -> int:
    """How long it may wait, in ms: core classes as long as a lease needs to grow."""
    if not denial.may_wait:
        return 0
    longest = gate.stances[request.subject.rank].longest_wait_ms
    if request.subject.rank >= CORE:
        longest = max(longest, CORE_WAIT * gate.interval_ms)
    return longest if request.timeout_ms is None else min(longest, request.timeout_ms)


def _wait(
    gate: "PoolGate", request: Request, denial: Denial, now_ms: int, patience_ms: int
) -> bool:
    request.denial = denial
    request.deadline_ms = now_ms + patience_ms
    if not gate.lines.add(request):
        return False
    request.state = request.status = "waiting"
    retry_ms = patience_ms if denial.retry_ms is None else min(denial.retry_ms, patience_ms)
    due_ms = now_ms + retry_ms
    gate.next_ms = due_ms if gate.next_ms is None else min(gate.next_ms, due_ms)
    return True


def _move(gate: "PoolGate", head: Request | None, now_ms: int, ended: list[Request]) -> int | None:
    """Move one line on; returns when its head may be admitted, if that is known."""
    while head is not None:
        subject = head.subject
        denial = admit(gate, head, now_ms)
        if denial is not None and denial.may_wait and head.deadline_ms > now_ms:
            head.denial = denial
            return None if denial.retry_ms is None else now_ms + max(denial.retry_ms, 1)
        if denial is None:
            _waited(gate, head, now_ms)
        else:
            dismiss(gate, head, denial, now_ms)
        ended.append(head)
        head = gate.lines.next_of(subject)
    return None


def _waited(gate: "PoolGate", request: Request, now_ms: int) -> None:
    gate.lines.drop(request)
    request.wait_ms = now_ms - request.asked_ms
    mark(gate, request)
