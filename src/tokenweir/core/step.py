"""The two steps of a pool's log: move the pool's time, which may decide, then fold the record."""

from tokenweir.core.apply import take_effect
from tokenweir.core.audit import audit_entry
from tokenweir.core.decide import decide
from tokenweir.core.fold import fold_capacity, fold_ceiling, fold_report, fold_spec
from tokenweir.core.measure import flow
from tokenweir.core.pool import Pool
from tokenweir.core.publish import Decided, published
from tokenweir.core.window import roll
from tokenweir.records.journal import AuditEntry, JournalEntry
from tokenweir.records.spec import PoolSpec
from tokenweir.records.usage import CapacityReport, QuotaCeiling, UsageReport

UsageRecord = UsageReport | PoolSpec | CapacityReport | QuotaCeiling
__all__ = ["Decided", "UsageRecord", "advance", "fold"]


def advance(pool: Pool, append_ms: int, *, leases: bool = True) -> Decided | None:
    """Move the pool's time to that of its next message; call it before the message is folded.

    A pool's time is the largest append time so far (T1). A message that reaches one or more
    boundaries first makes one decision, for the newest of them (T2). Without `leases` their records
    are left out, for who publishes nothing.
    """
    pool.clock_ms = max(pool.clock_ms, append_ms)
    spec = pool.spec or pool.pending_spec
    newest = pool.clock_ms // spec.interval_ms * spec.interval_ms if spec else 0
    decided = (
        _decided(pool, newest, spec.interval_ms, leases=leases)
        if spec and newest > pool.boundary_ms
        else None
    )
    roll(pool.window, pool.clock_ms)
    return decided


def _decided(pool: Pool, newest: int, interval_ms: int, *, leases: bool) -> Decided:
    passed = (newest - pool.boundary_ms) // interval_ms
    # The first spec counts from where its grid begins; another capacity from this boundary (T4).
    effects = take_effect(pool, newest) if pool.spec is None else ()
    flow(pool, newest)
    effects = effects or take_effect(pool, newest)
    assert pool.spec is not None
    skipped = min(max(passed - 1, 0), pool.spec.window_s * 1000 // interval_ms)
    verdict = decide(pool, pool.spec, newest, skipped)
    return published(pool, pool.spec, verdict, effects, leases=leases)


def fold(pool: Pool, record: UsageRecord, append_ms: int) -> tuple[JournalEntry, ...]:
    """Fold one record; the audit entries that it causes.

    Raises `BadRecord`, with the pool unchanged, for a record that cannot be used.
    """
    match record:
        case UsageReport():
            fold_report(pool, record, append_ms)
        case PoolSpec():
            why = fold_spec(pool, record)
            if why:
                return (_rejected(pool, record, why),)
        case CapacityReport():
            fold_capacity(pool, record)
        case QuotaCeiling():
            fold_ceiling(pool, record)
    return ()


def _rejected(pool: Pool, spec: PoolSpec, why: str) -> JournalEntry:
    audit = AuditEntry(
        kind="spec_rejected",
        subject=pool.name,
        lost=[],
        gained=[],
        amount=0,
        unit="",
        before=str(spec.replaces),
        after=str(spec.version),
        why=why,
    )
    return audit_entry(pool, pool.clock_ms, audit)
