"""Let what was kept for the boundary take effect: a spec, a capacity (T4)."""

from tokenweir.core.pool import Pool
from tokenweir.core.quota.quotas import reopened
from tokenweir.core.reindex import reindex
from tokenweir.core.schedule import scheduled
from tokenweir.core.terms import terms_of
from tokenweir.core.tuning import forget
from tokenweir.records.journal import AuditEntry
from tokenweir.records.spec import Capacity


def take_effect(pool: Pool, at_ms: int) -> tuple[AuditEntry, ...]:
    """Put the pending spec and capacity in force; what changed, for the audit."""
    take_up(pool, at_ms)
    changes = []
    was, before = pool.spec, pool.capacity
    if pool.pending_spec is not None:
        changes.append(_spec_entry(pool))
        pool.spec, pool.pending_spec = pool.pending_spec, None
    elif pool.pending_capacity is None:
        return ()
    if pool.pending_capacity is not None:
        pool.capacity, pool.pending_capacity = pool.pending_capacity, None
    if pool.capacity != before:
        changes.append(_capacity_entry(pool, before))
    pool.pending_source = ""
    assert pool.spec is not None
    terms = terms_of(pool.spec, pool.capacity)
    reindex(pool, terms, pool.spec.window_s, pool.spec.grace_s)
    pool.quotas = reopened(pool.quotas, pool.spec, terms, pool.boundary_ms)
    if pool.spec is not was:
        forget(pool, was, pool.spec)
    return tuple(changes)


def take_up(pool: Pool, until_ms: int) -> None:
    """Keep for the next boundary what the schedule said up to `until_ms`, as if reported (T4)."""
    spec, now = pool.pending_spec or pool.spec, pool.pending_capacity or pool.capacity
    if spec is None:
        return
    capacity = scheduled(spec, now, pool.scheduled_ms, until_ms)
    pool.scheduled_ms = max(pool.scheduled_ms, until_ms)
    if capacity != now:
        pool.pending_capacity, pool.pending_source = capacity, "schedule"


def _spec_entry(pool: Pool) -> AuditEntry:
    assert pool.pending_spec is not None
    before = pool.spec.version if pool.spec else 0
    return AuditEntry(
        kind="spec",
        subject=pool.name,
        lost=[],
        gained=[],
        amount=pool.pending_spec.version,
        unit="version",
        before=str(before),
        after=str(pool.pending_spec.version),
        why="a spec was applied",
    )


def _capacity_entry(pool: Pool, before: Capacity) -> AuditEntry:
    return AuditEntry(
        kind="capacity",
        subject=pool.name,
        lost=[],
        gained=[],
        amount=pool.capacity.tokens_per_s - before.tokens_per_s,
        unit="milli-tokens/s",
        before=_words(before),
        after=_words(pool.capacity),
        why=f"the capacity changed, by {pool.pending_source}",
    )


def _words(capacity: Capacity) -> str:
    parts = [f"{capacity.tokens_per_s / 1000:g} tokens/s"]
    if capacity.kv_bytes is not None:
        parts.append(f"{capacity.kv_bytes} KV bytes")
    if capacity.sequences is not None:
        parts.append(f"{capacity.sequences} sequences")
    return ", ".join(parts)
