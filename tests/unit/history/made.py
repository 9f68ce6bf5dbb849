"""Small reports, blocks, entries and records of a log, as tests want them."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from tokenweir.history.rows import Place, Record
from tokenweir.records.control import ClassState, ControlDecision, Tier
from tokenweir.records.journal import (
    AuditEntry,
    DecisionEntry,
    GatewayFigures,
    JournalEntry,
    QuotaFigures,
    TenantFigures,
)
from tokenweir.records.spec import TokenWeights
from tokenweir.records.usage import RequestsBlock, Status, Totals, UsageReport
from tokenweir.wire import encode

NOON_MS = 1_780_056_000_000  # 2026-05-29 12:00:00 UTC
POOL = "pool-a"
USAGE_0 = Place("usage", 0)
NO_QUOTAS = QuotaFigures()


@dataclass(frozen=True, slots=True)
class Increment:
    """One row of a requests block."""

    id: str = "r1"
    tenant: str = "acme"
    user: str = "ann"
    status: Status = "done"
    uncached: int = 0
    cached: int = 0
    out: int = 0
    attempt: int = 1
    refused_tokens: int = 0
    estimated: bool = False
    error: bool = False
    age_ms: int = 0
    reason: str = ""
    cache_write: int = 0


def block(rows: Sequence[Increment]) -> RequestsBlock:
    names = [
        "",
        *sorted({text for row in rows for text in (row.tenant, row.user, row.reason)} - {""}),
    ]
    at = {name: index for index, name in enumerate(names)}
    count = len(rows)
    return RequestsBlock(
        names=names,
        id=[row.id for row in rows],
        attempt=[row.attempt for row in rows],
        tenant=[at[row.tenant] for row in rows],
        user=[at[row.user] for row in rows],
        model=[],
        operation=[],
        provider_tier=[],
        reason=[at[row.reason] for row in rows],
        status=[row.status for row in rows],
        flow=["online"] * count,
        priority=[2] * count,
        tokens_uncached=[row.uncached for row in rows],
        tokens_cache_write=[row.cache_write for row in rows],
        tokens_cached=[row.cached for row in rows],
        tokens_out=[row.out for row in rows],
        refused_tokens=[row.refused_tokens for row in rows],
        estimated=[row.estimated for row in rows],
        error=[row.error for row in rows],
        kv_bytes=[],
        wait_ms=[],
        duration_ms=[],
        age_ms=[row.age_ms for row in rows],
        decision=[],
    )


def totals(rows: Sequence[Increment]) -> Totals:
    who = sorted({(row.tenant, row.user) for row in rows})
    names = sorted({name for pair in who for name in pair})
    of = [[row for row in rows if (row.tenant, row.user) == pair] for pair in who]
    ends = [[r for r in some if r.status not in ("part", "refused")] for some in of]
    columns: dict[str, Any] = {field.name: () for field in fields(Totals)}
    return Totals(
        **columns
        | {
            "names": names,
            "tenant": [names.index(tenant) for tenant, _ in who],
            "user": [names.index(user) for _, user in who],
            "requests": [len(some) for some in ends],
            "errors": [sum(r.error for r in some) for some in ends],
            "tokens_uncached": [sum(r.uncached for r in some) for some in of],
            "tokens_cached": [sum(r.cached for r in some) for some in of],
            "tokens_out": [sum(r.out for r in some) for some in of],
            "refused": [sum(r.status == "refused" for r in some) for some in of],
            "refused_tokens": [sum(r.refused_tokens for r in some) for some in of],
        }
    )


def report(sequence: int, *rows: Increment, pool: str = POOL, **changes: Any) -> UsageReport:
    whole = UsageReport(
        pool=pool,
        gateway="gw-1",
        sequence=sequence,
        applied=0,
        closing=False,
        more=False,
        age_ms=0,
        totals=totals(rows),
        requests=encode(block(rows)) if rows else b"",
    )
    return replace(whole, **changes)


def record(
    offset: int,
    message: object,
    *,
    append_ms: int | None = None,
    place: Place = USAGE_0,
    pool: str = POOL,
) -> Record:
    """A record of a log; `message` is a record of the wire, bytes or None."""
    value = message if isinstance(message, bytes | None) else encode(message)
    at_ms = NOON_MS + offset * 500 if append_ms is None else append_ms
    return Record(place, offset, at_ms, pool.encode(), value)


def decision_entry(
    at_ms: int,
    *,
    pool: str = POOL,
    tier: Tier = "normal",
    tenants: Sequence[str] = ("acme",),
    quotas: QuotaFigures = NO_QUOTAS,
    **changes: Any,
) -> JournalEntry:
    count = len(tenants)
    decision = ControlDecision(
        pool=pool,
        at_ms=at_ms,
        id=f"{pool}@{at_ms}",
        spec_version=1,
        mode="enforce",
        interval_ms=1000,
        longest_request_ms=600_000,
        tier=tier,
        breaker="closed",
        breaker_refuses="borrowers",
        probe_rate=0,
        level=500_000,
        level_now=510_000,
        lent=0,
        alpha=800_000,
        capacity=1_000_000,
        granted=400_000,
        priority_threshold="preemptible",
        parts=1,
        token_weights=TokenWeights(1_000_000, 100_000, 4_000_000),
        classes=[ClassState("spot", "limit", 200_000, 0, "refuse")],
        unknown_class="spot",
    )
    columns: dict[str, Any] = {field.name: [7] * count for field in fields(TenantFigures)}
    figures = TenantFigures(
        **columns | {"tenant": list(tenants), "service_class": ["guaranteed"] * count}
    )
    gateways = GatewayFigures(["gw-1"], [3], [at_ms - 1000], [at_ms - 200], [400_000], [0])
    changed = replace(decision, **changes)
    body = DecisionEntry(changed, figures, gateways, used=30, budget=60, quotas=quotas)
    return JournalEntry(pool, at_ms, decision.id, body)


def audit_entry(at_ms: int, number: int, *, pool: str = POOL, why: str = "test") -> JournalEntry:
    body = AuditEntry(
        "tier", pool, ["spot-1"], ["acme"], 5, "milli-tokens/s", "normal", "soft_degrade", why
    )
    return JournalEntry(pool, at_ms, f"{pool}@{at_ms}/audit/{number}", body)
