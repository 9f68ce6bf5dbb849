"""Who may wait instead of being refused, who is next, and when a wait ends (PROTOCOL L8, L10)."""

from typing import TYPE_CHECKING

from tokenweir.gateway import ledger
from tokenweir.gateway.admission import admit
from tokenweir.gateway.patience import patience, prolonged
from tokenweir.gateway.promise import promised
from tokenweir.gateway.queue import NEVER, Line
from tokenweir.gateway.reasons import Denial
from tokenweir.gateway.request import Request
from tokenweir.gateway.stance import CORE_WAIT
from tokenweir.gateway.streams import mark
from tokenweir.gateway.subject import Subject
from tokenweir.gateway.suspend import resume

if TYPE_CHECKING:
    from tokenweir.gateway.pool import PoolGate

CLOSING = Denial("closing", None, False)


def blocked(gate: "PoolGate", subject: Subject, now_ms: int) -> Denial | None:
    """Why a newcomer cannot even be tried: others of its tenant wait before it."""
    if gate.closing:
        return CLOSING
    line = gate.lines.of(subject)
    head = line.head(now_ms) if line is not None else None
    if head is None:
        return None
    # Nobody overtakes in a line; why the first waits is why all do.
    return Denial(head.denial.reason if head.denial else "tokens", None, True)


def hold_back(gate: "PoolGate", request: Request, denial: Denial, now_ms: int) -> None:
    """Let a request wait or refuse it; in shadow mode only count that."""
    if gate.shadow and not gate.closing:
        request.subject.would_refuse[denial.reason] += 1
        admit(gate, request, now_ms, free=True)
        return
    patience_ms = patience(gate, request, denial)
    if patience_ms > 0 and _room(gate, request, now_ms):
        _wait(gate, request, denial, now_ms, patience_ms)
        return
    denial = promised(gate, request, denial, now_ms)
    if patience_ms > 0:
        denial = denial._replace(reason="queue_full", may_wait=False)
    ledger.refuse(gate, request, denial, now_ms)


def serve(gate: "PoolGate", now_ms: int) -> list[Request]:
    """Admit who may go now, refuse whose wait is over; returns both, and who was dropped."""
    lines = gate.lines
    ended, gate.dropped = gate.dropped, []
    if gate.resume_ms is not None and gate.resume_ms <= now_ms:
        ended += resume(gate, now_ms)
    for line in lines.due(now_ms):
        if line.subject.leased:
            lines.withdraw(line.subject)
            _move(gate, line, now_ms, ended)
        else:
            lines.compete(line, now_ms)
            lines.pot_due_ms = now_ms
    if lines.pot_due_ms <= now_ms:
        _share_pot(gate, now_ms, ended)
    for request in lines.overdue(now_ms):
        if not prolonged(gate, request, now_ms):
            dismiss(gate, request, _why(gate, request, now_ms), now_ms)
            ended.append(request)
    moments = (lines.next_ms(), gate.resume_ms)
    gate.next_ms = min((moment for moment in moments if moment is not None), default=None)
    return ended


def dismiss(gate: "PoolGate", request: Request, denial: Denial | None, now_ms: int) -> None:
    """End a wait without admitting."""
    gate.lines.drop(request)
    denial = promised(gate, request, denial or Denial("tokens", None, False), now_ms)
    ledger.refuse(gate, request, denial, now_ms)


def _why(gate: "PoolGate", request: Request, now_ms: int) -> Denial | None:
    """Why it was not admitted: why the first of its line is not, since nobody overtakes."""
    line = gate.lines.of(request.subject)
    head = line.head(now_ms) if line is not None else None
    return request.denial if head is None else head.denial


def _room(gate: "PoolGate", request: Request, now_ms: int) -> bool:
    """There is room for one more; where there is none, somebody lower makes it."""
    if not gate.lines.full:
        return True
    lowest = gate.lines.lowest(request)
    if lowest is None:
        return False
    dismiss(gate, lowest, lowest.denial, now_ms)
    assert lowest.denial is not None
    lowest.denial = lowest.denial._replace(reason="queue_full", may_wait=False)
    gate.dropped.append(lowest)
    return True


def _wait(
    gate: "PoolGate", request: Request, denial: Denial, now_ms: int, patience_ms: int
) -> None:
    lines = gate.lines
    request.denial = denial
    request.deadline_ms = now_ms + patience_ms
    request.answer = gate.leases.timely + CORE_WAIT
    request.state = request.status = "waiting"
    line = lines.add(request, now_ms)
    if denial.reason == "pot" and len(line) == 1:
        lines.compete(line, now_ms)
        if denial.retry_ms is not None:
            lines.pot_due_ms = min(lines.pot_due_ms, now_ms + denial.retry_ms)
    elif denial.retry_ms is not None:
        lines.due_at(line, min(line.due_ms, now_ms + denial.retry_ms))
    elif line.head(now_ms) is request and len(line) > 1:
        lines.due_at(line, now_ms)  # it goes before those that wait: perhaps it may go at once
    due_ms = lines.next_ms() or now_ms
    due_ms = now_ms if gate.dropped else due_ms
    gate.next_ms = due_ms if gate.next_ms is None else min(gate.next_ms, due_ms)


def _move(gate: "PoolGate", line: Line, now_ms: int, ended: list[Request]) -> None:
    """Move the line of a tenant with a lease on, until its head must wait."""
    while (head := line.head(now_ms)) is not None:
        denial = admit(gate, head, now_ms)
        if denial is not None and denial.may_wait and _may_stay(gate, head, now_ms):
            _stays(gate, line, head, denial, now_ms)
            return
        _goes(gate, head, denial, now_ms, ended)


def _share_pot(gate: "PoolGate", now_ms: int, ended: list[Request]) -> None:
    """Let the tenants without a lease at the starter pot, by the weights of their classes."""
    lines = gate.lines
    lines.pot_due_ms = NEVER
    while (subject := lines.pot.next(now_ms)) is not None:
        line = lines.of(subject)
        head = line.head(now_ms) if line is not None else None
        assert line is not None
        assert head is not None
        denial = admit(gate, head, now_ms)
        if denial is None or not denial.may_wait or not _may_stay(gate, head, now_ms):
            _goes(gate, head, denial, now_ms, ended)
            continue
        if denial.reason == "pot" and gate.leases.pot.level <= 0:
            head.denial = denial
            ready_ms = gate.leases.pot.ready_ms()
            lines.pot_due_ms = NEVER if ready_ms is None else now_ms + max(ready_ms, 1)
            return
        # Its own allowance is used up, or something else lacks: the others need not wait for it.
        lines.withdraw(subject)
        _stays(gate, line, head, denial, now_ms)


def _may_stay(gate: "PoolGate", head: Request, now_ms: int) -> bool:
    return head.deadline_ms > now_ms or prolonged(gate, head, now_ms)


def _stays(gate: "PoolGate", line: Line, head: Request, denial: Denial, now_ms: int) -> None:
    head.denial = denial
    if denial.retry_ms is not None:
        gate.lines.due_at(line, now_ms + max(denial.retry_ms, 1))


def _goes(
    gate: "PoolGate", head: Request, denial: Denial | None, now_ms: int, ended: list[Request]
) -> None:
    if denial is None:
        gate.lines.take(head, now_ms)
        head.wait_ms = now_ms - head.asked_ms
        mark(gate, head)
    else:
        dismiss(gate, head, denial, now_ms)
    ended.append(head)
