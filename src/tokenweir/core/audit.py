"""What took from somebody, or what somebody asked for, in words and numbers."""

import numpy as np

from tokenweir.core.breaker import failing
from tokenweir.core.decide import Verdict, tier_of
from tokenweir.core.pool import Pool
from tokenweir.core.terms import GUARANTEED
from tokenweir.records.journal import AuditEntry, JournalEntry
from tokenweir.records.spec import PoolSpec


def audit_entry(pool: Pool, at_ms: int, audit: AuditEntry) -> JournalEntry:
    """An audit entry under the next id since the pool's last decision."""
    pool.notes += 1
    id_ = f"{pool.name}@{pool.boundary_ms}/audit/{pool.notes}"
    return JournalEntry(pool.name, at_ms, id_, audit)


def tier_audit(pool: Pool, verdict: Verdict) -> tuple[AuditEntry, ...]:
    """The tier changed: whom that holds back."""
    was, now = verdict.was, tier_of(pool)
    if was == now:
        return ()
    held = [name for name, action in zip(pool.terms.names, verdict.action, strict=True) if action]
    entry = AuditEntry(
        kind="tier",
        subject=pool.name,
        lost=held,
        gained=[],
        amount=pool.level,
        unit="millionths of the budget",
        before=was,
        after=now,
        why=f"the smoothed level is {_percent(pool.level)}{_by_breaker(pool)}",
    )
    return (entry,)


def _by_breaker(pool: Pool) -> str:
    state = pool.breaker.breaker
    return "" if state == "closed" else f", and the breaker is {state.replace('_', ' ')}"


def breaker_audit(pool: Pool, spec: PoolSpec, verdict: Verdict) -> tuple[AuditEntry, ...]:
    """The breaker opened, tries again, or closed: who lost what it had borrowed."""
    was, now = verdict.breaker_was, pool.breaker
    if was.breaker == now.breaker:
        return ()
    names = np.array(pool.terms.names, dtype=object)
    entry = AuditEntry(
        kind="breaker",
        subject=pool.name,
        lost=names[verdict.cut > 0].tolist(),
        gained=[],
        amount=int(verdict.cut.sum()),
        unit="milli-tokens/s",
        before=was.breaker,
        after=now.breaker,
        why=_why_breaker(pool, spec, verdict),
    )
    return (entry,)


def _why_breaker(pool: Pool, spec: PoolSpec, verdict: Verdict) -> str:
    low = spec.tiers.circuit_break - spec.tiers.margin
    seen = (
        f"the total level is {_percent(pool.total)} and "
        f"{_percent(failing(pool.outcomes))} of requests fail"
    )
    cool_off = f"{pool.breaker.cool_off_ms / 1000:g} s"
    match verdict.breaker_was.breaker, pool.breaker.breaker:
        case "closed", _:
            limit = f"{_percent(spec.tiers.circuit_break)} for {spec.tiers.rise} decisions"
            return f"{seen}: at least {limit}; it stays open for {cool_off} at least"
        case "open", _:
            probe = f"{verdict.probe_rate / 1000:g} tokens/s may probe"
            return f"{seen}: below {_percent(low)} after {cool_off}; {probe}"
        case _, "open":
            limits = f"{_percent(low)} and at most {_percent(spec.breaker.error_rate)}"
            return f"{seen}: not below {limits}; it stays open for {cool_off} at least"
        case _:
            return f"{seen}: low for the probe time"


def _percent(millionths: int) -> str:
    return f"{millionths / 10_000:.1f} %"


def floors_audit(pool: Pool, verdict: Verdict) -> tuple[AuditEntry, ...]:
    """The core's floors do not fit into the capacity that holds from now on: an alarm."""
    terms = pool.terms
    core = terms.of_class(GUARANTEED) & ~terms.suspended
    needed, available = int(terms.baseline[core].sum()), verdict.available
    if needed <= available:
        return ()
    names = np.array(terms.names, dtype=object)
    entry = AuditEntry(
        kind="floors",
        subject=pool.name,
        lost=names[core & (terms.baseline > 0)].tolist(),
        gained=[],
        amount=needed - available,
        unit="milli-tokens/s",
        before=str(needed),
        after=str(available),
        why="the capacity does not hold the floors of dedicated and guaranteed tenants",
    )
    return (entry,)


def reclaim_audit(pool: Pool, verdict: Verdict) -> tuple[AuditEntry, ...]:
    """An owner came back, and who had borrowed has less than it wants."""
    if not verdict.taken.any() or not verdict.grown.any():
        return ()
    names = np.array(pool.terms.names, dtype=object)
    amount = int(verdict.taken.sum())
    left = int(verdict.grants.borrowed[verdict.taken > 0].sum())
    entry = AuditEntry(
        kind="reclaim",
        subject=pool.name,
        lost=names[verdict.taken > 0].tolist(),
        gained=names[verdict.grown > 0].tolist(),
        amount=amount,
        unit="milli-tokens/s",
        before=str(left + amount),
        after=str(left),
        why="owners ask for their baselines again",
    )
    return (entry,)


def revoke_audit(pool: Pool, verdict: Verdict) -> tuple[AuditEntry, ...]:
    """Running work was stopped: whose, for whom, and the tokens that it held."""
    if not verdict.revoked.any():
        return ()
    assert pool.spec is not None
    names = np.array(pool.terms.names, dtype=object)
    held = sum(int(g.gauges[3][verdict.revoked].sum()) for g in pool.gateways.values())
    entry = AuditEntry(
        kind="revoke",
        subject=pool.name,
        lost=names[verdict.revoked].tolist(),
        gained=names[verdict.grown > 0].tolist(),
        amount=held,
        unit="tokens held by the work that was stopped; lost where it cannot be suspended",
        before="running",
        after=f"may go on after {pool.spec.reclaim.resume_ms} ms",
        why="owners need what preemptible work occupies",
    )
    return (entry,)
