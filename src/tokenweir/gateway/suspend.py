"""Work of a revoked tenant: suspended or cancelled, and resumed when it may be admitted again.

A suspended request keeps what it has produced and returns the rest of what it held. It goes on by
itself from the revocation's `until_ms` on, a minute of pool time where the record names none, as
soon as it would be admitted; until then it occupies nothing. What a cancelled one has used is lost.
"""

from typing import TYPE_CHECKING

from tokenweir.gateway import ledger
from tokenweir.gateway.admission import RESUME_MS, admit
from tokenweir.gateway.charge import charged
from tokenweir.gateway.reasons import AlreadyEnded
from tokenweir.gateway.request import Request
from tokenweir.gateway.streams import part
from tokenweir.gateway.subject import Subject

if TYPE_CHECKING:
    from tokenweir.gateway.pool import PoolGate


def stop(gate: "PoolGate", before: set[str]) -> None:
    """Who is barred has changed: note the requests that run for newly revoked tenants."""
    names = {name for name, (reason, _) in gate.barred.items() if reason == "revoked"} - before
    if names:
        gate.revoked += [request for request in gate.holds if request.subject.name in names]


def suspend(gate: "PoolGate", request: Request, now_ms: int) -> None:
    """Stop a request: what it has produced stays charged, all else is returned."""
    if request.state != "admitted":
        raise AlreadyEnded(request.id, request.status)
    gate.rows.append(part(gate, request, now_ms, "revoked"))
    ledger.release(gate, request, _produced(gate, request))
    request.state = request.status = "suspended"
    request.subject.suspended += 1
    gate.suspended[request] = _resumes(request.subject, gate.clock.at(now_ms) or 0)
    gate.resume_ms = gate.next_ms = now_ms


def cancel(gate: "PoolGate", request: Request, now_ms: int) -> None:
    """End a request of a revoked tenant: what it has used stays charged, and is lost."""
    if request.state == "suspended":  # all that it holds is what it has produced
        ledger.cancel(gate, request, now_ms, "revoked")
    else:
        ledger.leave(gate, request, now_ms, "cancelled", False, "revoked")
    request.subject.lost += request.held // 1000


def resume(gate: "PoolGate", now_ms: int) -> list[Request]:
    """Let those go on whose time has come and who are admitted; returns them."""
    pool_ms = gate.clock.at(now_ms) or 0
    gate.resume_ms = None
    resumed = []
    for request, from_ms in tuple(gate.suspended.items()):
        wait_ms = from_ms - pool_ms if from_ms > pool_ms else _ask(gate, request, now_ms)
        if wait_ms is None:
            resumed.append(request)
            continue
        due_ms = now_ms + max(wait_ms, 1)
        gate.resume_ms = due_ms if gate.resume_ms is None else min(gate.resume_ms, due_ms)
    return resumed


def _ask(gate: "PoolGate", request: Request, now_ms: int) -> int | None:
    """Admit it for what it has left to do: None, else when to try again."""
    paid, whole = request.held, request.cost
    payers = request.bucket, request.pot_share, request.windows
    request.bucket, request.pot_share, request.windows = None, None, ()
    request.cost = max(whole - paid, 0)
    denial = admit(gate, request, now_ms)
    request.cost = whole
    if denial is not None:
        request.bucket, request.pot_share, request.windows = payers
        return gate.interval_ms if denial.retry_ms is None else denial.retry_ms
    # What it has produced was charged before; the end is reckoned against both.
    request.held += paid
    del gate.suspended[request]
    request.subject.suspended -= 1
    request.subject.admitted -= 1
    return None


def _resumes(subject: Subject, pool_ms: int) -> int:
    return subject.barred_until_ms or pool_ms + RESUME_MS


def _produced(gate: "PoolGate", request: Request) -> int:
    return charged(gate.weights, request.uncached, request.cached, request.out) * 1000
