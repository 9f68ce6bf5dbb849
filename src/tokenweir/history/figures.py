"""A decision's figures as rows: one in `decisions`, one a tenant in `grants`."""

from tokenweir.history.rows import Rows, one_row
from tokenweir.history.tables import DECISIONS, GRANTS
from tokenweir.records.journal import DecisionEntry, JournalEntry

# Columns of `decisions` that have the name of the decision's field.
SAME = (
    "spec_version",
    "mode",
    "tier",
    "breaker",
    "breaker_refuses",
    "interval_ms",
    "longest_request_ms",
    "probe_rate",
    "level",
    "level_now",
    "lent",
    "alpha",
    "capacity",
    "granted",
    "priority_threshold",
    "unknown_class",
    "parts",
)
FIGURES = (
    "tenant",
    "service_class",
    "baseline",
    "demand",
    "rate",
    "used",
    "weight",
    "floor",
    "grant",
    "leased",
    "debt",
    "refused",
    "refused_tokens",
    "queued",
    "spent",
)


def decision_row(entry: JournalEntry, body: DecisionEntry, checksum: int) -> Rows:
    """The row in `decisions`."""
    decision, weights, gateways = body.decision, body.decision.token_weights, body.gateways
    return one_row(
        DECISIONS,
        pool=entry.pool,
        at=entry.at_ms,
        id=entry.id,
        checksum=checksum,
        used=body.used,
        budget=body.budget,
        weight_uncached=weights.uncached,
        weight_cached=weights.cached,
        weight_out=weights.out,
        tenants=len(body.tenants.tenant),
        class__name=[state.service_class for state in decision.classes],
        class__action=[state.action for state in decision.classes],
        gateway__name=gateways.gateway,
        gateway__sequence=gateways.sequence,
        gateway__applied=gateways.applied,
        gateway__seen=gateways.seen_ms,
        gateway__leased=gateways.leased,
        gateway__missing=gateways.missing,
        **{name: getattr(decision, name) for name in SAME},
    )


def grant_rows(entry: JournalEntry, body: DecisionEntry) -> Rows:
    """The rows in `grants`."""
    each = {name: getattr(body.tenants, name) for name in FIGURES}
    return Rows(GRANTS, len(body.tenants.tenant), {"pool": entry.pool, "at": entry.at_ms}, each)
