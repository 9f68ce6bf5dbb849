"""What a gateway shows of itself, as values."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from tokenweir.gateway.reasons import Reason
from tokenweir.gateway.spool import Spool
from tokenweir.gateway.subject import Subject
from tokenweir.records.control import Tier
from tokenweir.records.spec import CLASSES, Mode, ServiceClass

if TYPE_CHECKING:
    from tokenweir.gateway.pool import PoolGate

_STATES = {
    "none": "no leases yet",
    "lease": "leases obeyed",
    "floor": "control is silent: floors only",
    "ended": "control is silent: leases and floors have ended",
}


@dataclass(frozen=True, slots=True)
class TenantStats:
    """One tenant in one pool since the gateway's start; amounts are charged tokens.

    `remaining` is never negative; what the lease owes is `owed`. All names that no spec knows are
    under `*`.
    """

    tenant: str
    service_class: ServiceClass
    leased: bool
    rate: int  # milli-tokens/s that flow now
    remaining: int
    owed: int
    admitted: int
    refused: Mapping[Reason, int]
    would_refuse: Mapping[Reason, int]  # in shadow mode
    waiting: int
    in_flight: int
    spent: int


@dataclass(frozen=True, slots=True)
class PoolStats:
    """One pool as this gateway sees it. Times are pool time in ms; None: not known yet."""

    pool: str
    gateway: str
    state: str
    mode: Mode | None
    tier: Tier | None
    decision_id: str
    applied_ms: int
    pool_ms: int | None
    control_age_ms: int | None
    waiting: int
    in_flight: int
    spool_reports: int
    spool_bytes: int
    lost_reports: int
    lost_rows: int
    tenants: Mapping[str, TenantStats]


def pool_stats(gate: "PoolGate", spool: Spool, link: str, now_ms: int) -> PoolStats:
    """The pool as it stands; `link` says what is wrong with Kafka, empty when nothing is."""
    pool_ms = gate.clock.at(now_ms)
    decision = gate.assembly.decision
    known = pool_ms is not None and decision is not None
    subjects = (*gate.subjects.values(), gate.stranger)
    return PoolStats(
        pool=gate.pool,
        gateway=gate.gateway,
        state="; ".join(part for part in (_state(gate, pool_ms), link) if part),
        mode=decision.mode if decision else None,
        tier=decision.tier if decision else None,
        decision_id=gate.decision_id,
        applied_ms=gate.leases.at_ms,
        pool_ms=pool_ms,
        control_age_ms=(pool_ms or 0) - gate.decision_ms if known else None,
        waiting=len(gate.lines),
        in_flight=len(gate.holds),
        spool_reports=len(spool),
        spool_bytes=spool.bytes,
        lost_reports=spool.lost_reports,
        lost_rows=spool.lost_rows,
        tenants=MappingProxyType({s.name: _tenant(s, now_ms) for s in subjects}),
    )


def _state(gate: "PoolGate", pool_ms: int | None) -> str:
    if pool_ms is None:
        return "no report acknowledged yet: nothing is obeyed"
    if gate.assembly.decision is None:
        return "no decision yet: is the control plane running, and the pool's spec applied?"
    return _STATES[gate.leases.phase]


def _tenant(subject: Subject, now_ms: int) -> TenantStats:
    subject.bucket.refill(now_ms)
    level = subject.bucket.level
    return TenantStats(
        tenant=subject.name,
        service_class=CLASSES[subject.rank],
        leased=subject.leased,
        rate=subject.bucket.rate,
        remaining=max(level, 0) // 1000,
        owed=-(min(level, 0) // 1000),
        admitted=subject.admitted,
        refused=dict(subject.refused),
        would_refuse=dict(subject.would_refuse),
        waiting=subject.waiting,
        in_flight=subject.in_flight,
        spent=subject.spent,
    )
