"""A decision's figures as rows: one in `decisions`, one a tenant in `grants`, and its quotas."""

from collections.abc import Sequence
from dataclasses import fields

from tokenweir.errors import BadRecord
from tokenweir.history.ddl import Table
from tokenweir.history.rows import Rows, one_row
from tokenweir.history.tables import DECISIONS, GRANTS, QUOTAS
from tokenweir.records.journal import DecisionEntry, JournalEntry, QuotaFigures, TenantFigures

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
WINDOWS = ("tenant", "user", "window_id", "tokens", "spent", "given")
# Older writers do not know these columns, and a pool without such a limit leaves them out.
MAY_LACK = ("borrowed", "sequences", "kv_bytes")


def check_figures(body: DecisionEntry) -> None:
    """Raise `BadRecord` when columns of the figures differ in length; some may be left out."""
    for figures in (body.tenants, body.gateways, body.quotas):
        columns = {field.name: getattr(figures, field.name) for field in fields(figures)}
        lengths = {n: len(column) for n, column in columns.items() if column or n not in MAY_LACK}
        if len(set(lengths.values())) > 1:
            raise BadRecord(f"{type(figures).__name__}: columns of different lengths, {lengths}")


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
    return _figure_rows(GRANTS, entry, body.tenants, FIGURES)


def quota_rows(entry: JournalEntry, body: DecisionEntry) -> Rows:
    """The rows in `quotas`."""
    return _figure_rows(QUOTAS, entry, body.quotas, WINDOWS)


def _figure_rows(
    table: Table, entry: JournalEntry, figures: TenantFigures | QuotaFigures, names: Sequence[str]
) -> Rows:
    each = {name: getattr(figures, name) for name in names}
    return Rows(table, len(figures.tenant), {"pool": entry.pool, "at": entry.at_ms}, each)
