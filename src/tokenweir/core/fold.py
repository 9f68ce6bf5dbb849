"""Fold one record of the usage topic into its pool; the pool's time has been moved already."""

from dataclasses import dataclass

import numpy as np

from tokenweir.core import ONE
from tokenweir.core.leases import confirm
from tokenweir.core.pool import GAUGES, Gateway, Pool
from tokenweir.core.terms import Ints
from tokenweir.core.window import add_tokens
from tokenweir.errors import BadRecord
from tokenweir.records.spec import Capacity, PoolSpec
from tokenweir.records.usage import CapacityReport, Totals, UsageReport

# More tokens than that in a row of a report, which covers a second at most, is not believed.
MOST_TOKENS = 10**10
# A week: a report that was kept longer than that would be of no window and no quota.
MOST_AGE_MS = 7 * 86_400_000
UNWEIGHTED = (ONE, ONE, ONE)
# Per row, in the order of `Totals`: what may not be negative, and how much is believed.
COLUMNS = (
    "age_ms",
    "requests",
    "errors",
    "tokens_uncached",
    "tokens_cached",
    "tokens_out",
    "refused",
    "refused_tokens",
    "wait_ms",
    *GAUGES,
)
# Tokens alone may be negative: a correction of what was reported before.
SIGNED = ("tokens_uncached", "tokens_cached", "tokens_out")
MOST = {"age_ms": MOST_AGE_MS, "kv_bytes": 10**15, "wait_ms": 10**12}


def fold_report(pool: Pool, report: UsageReport, append_ms: int) -> None:
    """Count a gateway's report once, whatever happened to it on its way (R1-R3, T5, T7).

    A report whose sequence is not above the gateway's last is a repeat and changes nothing. Raises
    `BadRecord`, with the pool unchanged, for one that cannot be.
    """
    table = _checked(pool, report)
    last = _last_sequence(pool, report.gateway)
    if report.sequence <= last:
        return
    gateway = _gateway(pool, report.gateway)
    gateway.missing += report.sequence - last - 1
    gateway.sequence = report.sequence
    gateway.seen_ms = pool.clock_ms
    gateway.reported = True
    confirm(gateway, report.applied)
    if report.closing:
        gateway.closed = True
        gateway.issued = []
    tenants = pool.terms.find(report.totals.names)[np.asarray(report.totals.tenant, np.int64)]
    _count(pool, gateway, tenants, table, append_ms - report.age_ms)
    _gauge(gateway, tenants, table, report.more)


def fold_spec(pool: Pool, spec: PoolSpec) -> str:
    """Keep a spec for the next boundary (T4); the empty string, or why it is rejected."""
    current = pool.pending_spec or pool.spec
    version = current.version if current else 0
    if spec.replaces != version:
        return f"it replaces version {spec.replaces}, and the current version is {version}"
    if spec.version <= version:
        return f"its version {spec.version} is not above the current {version}"
    if pool.spec is None and pool.pending_spec is None:
        # The first spec brings the grid of boundaries with it.
        pool.boundary_ms = pool.clock_ms // spec.interval_ms * spec.interval_ms
    pool.pending_spec = spec
    return ""


def fold_capacity(pool: Pool, report: CapacityReport) -> None:
    """Keep a capacity for the next boundary (T4); what it leaves out stays as it is."""
    for name in ("tokens_per_s", "kv_bytes", "sequences"):
        value = getattr(report, name)
        if value is not None and not 0 <= value <= 10**15:
            raise BadRecord(f"{name} is {value}: 0 to 10^15 is allowed")
    spec = pool.pending_spec
    now = pool.pending_capacity or (spec.capacity if spec else pool.capacity)
    pool.pending_capacity = Capacity(
        now.tokens_per_s if report.tokens_per_s is None else report.tokens_per_s,
        now.kv_bytes if report.kv_bytes is None else report.kv_bytes,
        now.sequences if report.sequences is None else report.sequences,
    )


@dataclass(frozen=True, slots=True)
class _Table:
    """The checked columns of a report, each of shape (rows,)."""

    columns: dict[str, Ints]

    def __getitem__(self, name: str) -> Ints:
        return self.columns[name]


def _checked(pool: Pool, report: UsageReport) -> _Table:
    if report.sequence < 1:
        raise BadRecord(f"sequence is {report.sequence}: 1 or more is allowed")
    if not 0 <= report.age_ms <= MOST_AGE_MS:
        raise BadRecord(f"age_ms is {report.age_ms}: 0 to {MOST_AGE_MS} is allowed")
    if not 0 <= report.applied <= pool.boundary_ms:
        raise BadRecord(
            f"applied is {report.applied}: 0 to {pool.boundary_ms}, the newest decision, is allowed"
        )
    totals = report.totals
    rows = len(totals.tenant)
    for name in ("tenant", "user"):
        places = getattr(totals, name)
        if len(places) != rows or (
            rows and not 0 <= min(places) <= max(places) < len(totals.names)
        ):
            raise BadRecord(f"totals.{name} does not fit {rows} rows, {len(totals.names)} names")
    return _Table({name: _column(totals, name, rows) for name in COLUMNS})


def _column(totals: Totals, name: str, rows: int) -> Ints:
    values = getattr(totals, name)
    if not values:
        return np.zeros(rows, dtype=np.int64)
    if len(values) != rows:
        raise BadRecord(f"totals.{name} has {len(values)} rows: 0 or {rows} are allowed")
    column = np.array(values, dtype=np.int64)
    most = MOST.get(name, MOST_TOKENS)
    least = -most if name in SIGNED else 0
    if rows and not least <= int(column.min()) <= int(column.max()) <= most:
        worst = int(column.min() if column.min() < least else column.max())
        raise BadRecord(f"totals.{name} has {worst}: {least} to {most} is allowed")
    return column


def _last_sequence(pool: Pool, name: str) -> int:
    if name in pool.gateways:
        return pool.gateways[name].sequence
    return pool.gone.get(name, (0, 0))[0]


def _gateway(pool: Pool, name: str) -> Gateway:
    if name not in pool.gateways:
        gateway = Gateway(name, len(pool.terms.names), first_ms=pool.clock_ms)
        pool.gateways[name] = gateway
        pool.gone.pop(name, None)
    return pool.gateways[name]


def _count(pool: Pool, gateway: Gateway, tenants: Ints, table: _Table, cut_ms: int) -> None:
    weights = pool.spec.token_weights if pool.spec else None
    by_kind = (weights.uncached, weights.cached, weights.out) if weights else UNWEIGHTED
    charged = (
        table["tokens_uncached"] * by_kind[0]
        + table["tokens_cached"] * by_kind[1]
        + table["tokens_out"] * by_kind[2]
    ) // ONE
    counters = (
        table["requests"],
        table["errors"],
        table["tokens_uncached"],
        table["tokens_cached"],
        table["tokens_out"],
        charged,
        table["refused"],
        table["refused_tokens"],
        table["wait_ms"],
    )
    np.add.at(pool.totals, tenants, np.stack(counters, axis=1))
    event_ms = np.minimum(cut_ms - table["age_ms"], pool.clock_ms)
    add_tokens(pool.window, tenants, event_ms, charged)
    # What was kept in a spool is no demand of this interval.
    recent = event_ms > pool.boundary_ms - 2 * (pool.spec.interval_ms if pool.spec else 1000)
    now = tenants[recent]
    np.add.at(gateway.spent, now, np.maximum(charged[recent], 0))
    np.add.at(gateway.refused, now, table["refused_tokens"][recent])
    np.add.at(pool.tally.refused, now, table["refused"][recent])
    np.add.at(pool.tally.waits, now, table["wait_ms"][recent])


def _gauge(gateway: Gateway, tenants: Ints, table: _Table, more: bool) -> None:
    """Gauges are whole in each complete report: what is absent is 0 (R2)."""
    if not gateway.more:
        gateway.filling[:] = 0
    for gauge, name in zip(gateway.filling, GAUGES, strict=True):
        np.add.at(gauge, tenants, table[name])
    gateway.more = more
    if not more:
        gateway.gauges, gateway.filling = gateway.filling, gateway.gauges
