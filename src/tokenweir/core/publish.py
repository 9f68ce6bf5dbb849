"""Turn a verdict into the records that are published, and close the interval's accounts."""

from collections.abc import Container
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tokenweir.core.actions import REFUSE, action_of, priority_threshold
from tokenweir.core.audit import (
    audit_entry,
    breaker_audit,
    floors_audit,
    reclaim_audit,
    revoke_audit,
    tier_audit,
)
from tokenweir.core.decide import Verdict, tier_of
from tokenweir.core.figures import Grounds, gateway_figures, tenant_figures
from tokenweir.core.issued import given
from tokenweir.core.lease_records import lease_records, note_parts, parts_of
from tokenweir.core.occupancy import KV, SEQUENCES, held, limit
from tokenweir.core.pool import GAUGED, HELD, REFUSED, SPENT, Gateway, Pool, gathered
from tokenweir.core.quota.audit import loan_audit, spent_audit, turn_audit
from tokenweir.core.quota.exposure import unheard
from tokenweir.core.quota.quotas import close_interval, leave
from tokenweir.core.quota.records import quota_figures, spends
from tokenweir.core.revoke import is_revoked
from tokenweir.core.roster import roster
from tokenweir.core.terms import Bools, Terms, standing
from tokenweir.records.control import (
    Barred,
    BarredReason,
    ClassState,
    ControlDecision,
    GatewayLeases,
    Roster,
    Tier,
)
from tokenweir.records.journal import AuditEntry, JournalEntry
from tokenweir.records.spec import ClassTerms, PoolSpec
from tokenweir.records.usage import PoolSpend

# A gateway's last sequence is kept for a day after its last report (R1).
REMEMBERED_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Decided:
    """All that one decision publishes, in this order; the same log gives the same bytes (S6)."""

    decision: ControlDecision
    leases: tuple[GatewayLeases, ...]
    barred: Barred | None  # only when it changed
    roster: Roster | None  # only when the spec changed
    grounds: Grounds
    audits: tuple[JournalEntry, ...]
    gone: tuple[tuple[str, int], ...]  # gateways to forget, and how many parts each had
    spends: tuple[PoolSpend, ...] = ()  # of quotas across pools, for those who share them (Q2)

    @property
    def entries(self) -> tuple[JournalEntry, ...]:
        """The decision's, made anew each time, then the audit's."""
        now = self.decision
        return JournalEntry(now.pool, now.at_ms, now.id, self.grounds.record()), *self.audits


def published(
    pool: Pool,
    spec: PoolSpec,
    verdict: Verdict,
    effects: tuple[AuditEntry, ...],
    *,
    leases: bool = True,
) -> Decided:
    """The records of a verdict, those of the leases on demand.

    Afterwards the pool stands at the next interval's beginning.
    """
    at_ms = verdict.at_ms
    parts = parts_of(verdict)
    decision = _decision(pool, spec, verdict, parts)
    note_parts(pool, verdict, parts)
    records = lease_records(pool, verdict, parts) if leases else ()
    figures = tenant_figures(pool, verdict)
    gateways = gateway_figures(pool, verdict)
    barred = _barred(pool, verdict)
    told = spends(pool, spec, verdict.guarded, verdict.rationed.rations, at_ms)
    gone = _forget_gateways(pool, spec, at_ms)
    _close(pool, at_ms)
    measures = verdict.measures
    grounds = Grounds(
        decision,
        figures,
        gateways,
        measures.used_tokens,
        measures.budget_tokens,
        total=pool.total,
        quotas=quota_figures(pool.quotas, verdict.guarded, verdict.rationed.rations),
    )
    audits = (
        *effects,
        *(floors_audit(pool, verdict) if effects else ()),
        *verdict.tuned,
        *breaker_audit(pool, spec, verdict),
        *tier_audit(pool, verdict),
        *reclaim_audit(pool, verdict),
        *revoke_audit(pool, verdict),
        *turn_audit(verdict.rationed.turns),
        *loan_audit(verdict.rationed.loans),
        *spent_audit(pool.quotas, verdict.rationed.rations, verdict.guarded.given),
    )
    return Decided(
        decision=decision,
        leases=records,
        barred=barred,
        roster=roster(spec) if any(audit.kind == "spec" for audit in effects) else None,
        grounds=grounds,
        audits=tuple(audit_entry(pool, at_ms, audit) for audit in audits),
        gone=gone,
        spends=told,
    )


def _decision(pool: Pool, spec: PoolSpec, verdict: Verdict, parts: int) -> ControlDecision:
    tier = tier_of(pool)
    return ControlDecision(
        pool=pool.name,
        at_ms=verdict.at_ms,
        id=f"{pool.name}@{verdict.at_ms}",
        spec_version=spec.version,
        mode=spec.mode,
        interval_ms=spec.interval_ms,
        longest_request_ms=spec.longest_request_ms,
        tier=tier,
        breaker=pool.breaker.breaker,
        breaker_refuses=spec.breaker.refuses,
        probe_rate=verdict.probe_rate,
        level=pool.level,
        level_now=verdict.measures.level_now,
        lent=verdict.measures.lent,
        alpha=verdict.alpha,
        capacity=pool.capacity.tokens_per_s,
        granted=int(verdict.grants.grant.sum()),
        priority_threshold=priority_threshold(tuple(spec.classes), tier),
        parts=parts,
        token_weights=spec.token_weights,
        classes=_class_states(tuple(spec.classes), tier),
        unknown_class=spec.unknown_class,
    )


@lru_cache(maxsize=64)
def _class_states(classes: tuple[ClassTerms, ...], tier: Tier) -> tuple[ClassState, ...]:
    return tuple(
        ClassState(
            terms.service_class,
            action_of(terms, tier),
            terms.starter,
            terms.longest_wait_ms,
            terms.on_silence,
        )
        for terms in classes
    )


def _barred(pool: Pool, verdict: Verdict) -> Barred | None:
    """Who may not use pots, when that has changed (L8): suspended, revoked, with grant 0,
    or with a quota that is spent or smaller than what all pots could give.

    Who does not ask has no grant either, and may begin with the pot unless nothing can come of it.
    Classes that the tier refuses need no entry.
    """
    terms, bars = pool.terms, verdict.guarded.barred
    stopped = is_revoked(pool.tally.revoked_ms, verdict.at_ms)
    asks = (verdict.measures.demand != 0) | (standing(terms).most <= 0)
    without = (verdict.grants.grant == 0) & asks & (verdict.action != REFUSE)
    without[terms.unknown] = False  # these share one allowance and have no names
    shut = terms.suspended | stopped | without
    if bars:
        shut[[*bars]] = True
    places = shut.nonzero()[0].tolist()
    barred = tuple((terms.names[place], _why(terms, stopped, bars, place)) for place in places)
    if barred == pool.barred and not verdict.guarded.changed:
        return None
    pool.barred = barred
    until_ms = np.zeros(len(terms.names), dtype=np.int64)
    until_ms[[*bars]] = [*bars.values()]
    until_ms = np.where(stopped, pool.tally.revoked_ms, until_ms)
    until_ms[terms.suspended] = 0
    return Barred(
        pool.name,
        verdict.at_ms,
        [name for name, _ in barred],
        [reason for _, reason in barred],
        until_ms[places].tolist(),
    )


def _why(terms: Terms, stopped: Bools, bars: Container[int], place: int) -> BarredReason:
    if terms.suspended[place]:
        return "suspended"
    if stopped[place]:
        return "revoked"
    return "quota" if place in bars else "no_grant"


def _forget_gateways(pool: Pool, spec: PoolSpec, at_ms: int) -> tuple[tuple[str, int], ...]:
    """Drop gateways that closed or were silent longer than their floors live (L9)."""
    gone = []
    for name in sorted(pool.gateways):
        gateway = pool.gateways[name]
        silent = at_ms - gateway.seen_ms > spec.floor_ms
        if gateway.closed or (silent and not _binds(pool, spec, gateway, at_ms)):
            gone.append((name, gateway.parts))
            exposed = unheard(pool, spec, gateway)
            leave(pool.quotas, name, exposed, closed=gateway.closed)
            pool.gone[name] = (gateway.sequence, gateway.seen_ms)
            del pool.gateways[name]
    pool.gone = {name: kept for name, kept in pool.gone.items() if at_ms - kept[1] <= REMEMBERED_MS}
    return tuple(gone)


def _binds(pool: Pool, spec: PoolSpec, gateway: Gateway, at_ms: int) -> bool:
    """Whether anything that the gateway was issued may still be used (L2)."""
    if given([gateway], gateway.tenants, at_ms).rates.any():
        return True
    longest = spec.longest_request_ms
    return any(
        limit(pool.capacity, kind) is not None
        and held([gateway], kind, gateway.tenants, longest, at_ms).any()
        for kind in (SEQUENCES, KV)
    )


def _close(pool: Pool, at_ms: int) -> None:
    close_interval(pool.quotas, pool.gateways)
    pool.boundary_ms = at_ms
    pool.notes = 0
    tally, figures = pool.tally, gathered(pool)
    for counted in (tally.refused, tally.waits, tally.ended, tally.failed):
        counted.fill(0)
    figures[:, SPENT : REFUSED + 1] = 0
    figures[:, HELD] = figures[:, GAUGED["held_tokens"]]
    for gateway in pool.gateways.values():
        gateway.reported = False
