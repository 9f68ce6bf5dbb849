"""What a gateway shows of itself, as values. Looking changes nothing, so any thread may look."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from tokenweir.gateway.bucket import Bucket
from tokenweir.gateway.leases import Phase
from tokenweir.gateway.reasons import Reason
from tokenweir.gateway.subject import Subject
from tokenweir.gateway.told import Told, Usage
from tokenweir.records.control import Tier
from tokenweir.records.spec import CLASSES, Mode, ServiceClass

if TYPE_CHECKING:
    from tokenweir.gateway.outlet import Outlet
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
    suspended: int  # requests that were revoked and will go on
    spent: int
    lost: int  # of that, by revoked requests that were cancelled
    told: Usage  # in reports so far


@dataclass(frozen=True, slots=True)
class PoolStats:
    """One pool as this gateway sees it. Times are pool time in ms; None: not known yet.

    Ages are up to this look: of the newest decision, of the oldest report that is not
    acknowledged, of the newest loss, and of the last time that a report was due, which is at most
    half an interval where the event loop runs.
    """

    pool: str
    gateway: str
    state: str
    phase: Phase
    interval_ms: int
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
    spool_trouble: str  # empty when nothing is wrong with a spool on disk
    unsent_age_ms: int | None
    lost_reports: int
    lost_rows: int
    lost_age_ms: int | None
    beat_age_ms: int
    link_trouble: str  # empty when nothing is wrong with Kafka
    tenants: Mapping[str, TenantStats]


def pool_stats(outlet: "Outlet", link: str, now_ms: int) -> PoolStats:
    """The pool as it stands; `link` says what is wrong with Kafka, empty when nothing is."""
    gate, spool = outlet.gate, outlet.spool
    pool_ms = gate.clock.seen(now_ms)
    decision = gate.assembly.decision
    known = pool_ms is not None and decision is not None
    oldest_ms, lost_ms = spool.oldest_ms, spool.losses.at_ms
    subjects = (*gate.subjects.values(), gate.stranger)
    return PoolStats(
        pool=gate.pool,
        gateway=gate.gateway,
        state="; ".join(part for part in (_state(gate, pool_ms), link, spool.trouble) if part),
        phase=gate.leases.phase,
        interval_ms=gate.interval_ms,
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
        spool_trouble=spool.trouble,
        unsent_age_ms=None if oldest_ms is None else now_ms - oldest_ms,
        lost_reports=spool.losses.reports,
        lost_rows=spool.losses.rows,
        lost_age_ms=None if lost_ms is None else now_ms - lost_ms,
        beat_age_ms=now_ms - outlet.beat_ms,
        link_trouble=link,
        tenants=MappingProxyType({s.name: _tenant(s, outlet.told, now_ms) for s in subjects}),
    )


def _state(gate: "PoolGate", pool_ms: int | None) -> str:
    if pool_ms is None:
        return "no report acknowledged yet: nothing is obeyed"
    if gate.assembly.decision is None:
        return "no decision yet: is the control plane running, and the pool's spec applied?"
    return _STATES[gate.leases.phase]


def _tenant(subject: Subject, told: Told, now_ms: int) -> TenantStats:
    level = _level(subject.bucket, now_ms)
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
        suspended=subject.suspended,
        spent=subject.spent,
        lost=subject.lost,
        told=told.of(subject.name),
    )


def _level(bucket: Bucket, now_ms: int) -> int:
    """What a refill at this moment would make of it, without the refill."""
    elapsed = max(now_ms - bucket.at_ms, 0)
    return min(bucket.level + (bucket.rate * elapsed + bucket.rest) // 1000, bucket.burst)
