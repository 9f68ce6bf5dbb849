"""Fold one record of the usage topic into its pool; the pool's time has been moved already."""

from operator import attrgetter
from typing import NamedTuple

import numpy as np

from tokenweir.core import ONE
from tokenweir.core.apply import take_up
from tokenweir.core.issued import confirm
from tokenweir.core.pool import COUNTERS, GAUGES, Gateway, Pool
from tokenweir.core.quota.fold import count, give
from tokenweir.core.quota.quotas import HELD, share_of
from tokenweir.core.schedule import in_force
from tokenweir.core.sound import CAPACITY, CEILING, check_bounds, check_spec
from tokenweir.core.terms import Bools, Ints
from tokenweir.core.window import add_tokens
from tokenweir.errors import BadRecord
from tokenweir.records.spec import Capacity, PoolSpec
from tokenweir.records.usage import CapacityReport, QuotaCeiling, Totals, UsageReport

# More tokens than that in a row of a report, which covers a second at most, is not believed; nor
# is more of the rest than `MOST` says. So sums over rows, gateways and windows stay in 64 bits.
MOST_TOKENS = 10**9
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
MOST = {"age_ms": MOST_AGE_MS, "kv_bytes": 10**13, "sequences": 10**6, "wait_ms": 10**12}
HIGHEST = np.array([[MOST.get(name, MOST_TOKENS)] for name in COLUMNS], dtype=np.int64)
LOWEST = np.where(np.isin(COLUMNS, SIGNED)[:, None], -HIGHEST, 0)
# Parts of `COLUMNS`: the first and the last make up `pool.COUNTERS`, with the charge between them.
ENDED, TOKENS, HELD_BACK = slice(1, 6), slice(3, 6), slice(6, 9)
PLACE = {name: place for place, name in enumerate(COLUMNS)}
READ = attrgetter(*COLUMNS)
# What a gateway and the tally take note of, besides what was spent.
RECENT = [PLACE[name] for name in ("refused_tokens", "refused", "wait_ms", "requests", "errors")]
# The rows of counters and of gauges, to place them in arrays that are looked at as flat.
COUNTER, GAUGE = (np.arange(len(names))[:, None] for names in (COUNTERS, GAUGES))


class _Rows(NamedTuple):
    """The rows of a report; arrays of shape (rows,), the table (columns, rows)."""

    tenants: Ints
    table: Ints
    charged: Ints
    event_ms: Ints
    recent: Bools


def fold_report(pool: Pool, report: UsageReport, append_ms: int) -> None:
    """Count a gateway's report once, whatever happened to it on its way (R1-R3, T5, T7).

    A report whose sequence is not above the gateway's last is a repeat and changes nothing. Raises
    `BadRecord`, with the pool unchanged, for one that cannot be.
    """
    table = _checked(pool, report)
    last = last_sequence(pool, report.gateway)
    if report.sequence <= last:
        return
    gateway = gateway_of(pool, report.gateway)
    heard_ms = max(gateway.applied_ms, gateway.first_ms)
    hear(pool, gateway, report.sequence, last, report.applied, closing=report.closing)
    tenants = pool.terms.find(report.totals.names)[np.asarray(report.totals.tenant, np.int64)]
    cut_ms = append_ms - report.age_ms
    rows = _rows(pool, tenants, table, cut_ms)
    _count(pool, gateway, rows)
    if pool.quotas.accounts.keys:
        _count_quotas(pool, report, rows, cut_ms, heard_ms)
    _gauge(gateway, tenants, table, report.more)


def fold_spec(pool: Pool, spec: PoolSpec) -> str:
    """Keep a spec for the next boundary (T4); the empty string, or why it is rejected.

    Raises `BadRecord` for one that the core cannot compute with.
    """
    check_spec(spec)
    current = pool.pending_spec or pool.spec
    version = current.version if current else 0
    if spec.replaces != version:
        return f"it replaces version {spec.replaces}, and the current version is {version}"
    if spec.version <= version:
        return f"its version {spec.version} is not above the current {version}"
    if pool.spec is None and pool.pending_spec is None:
        # The first spec brings the grid of boundaries with it.
        pool.boundary_ms = pool.clock_ms // spec.interval_ms * spec.interval_ms
    if current is None or _capacities(current) != _capacities(spec):
        # A spec that repeats its capacity does not undo what was reported since.
        pool.pending_capacity, pool.pending_source = in_force(spec, pool.clock_ms), "the spec"
        pool.scheduled_ms = pool.clock_ms
    pool.pending_spec = spec
    return ""


def fold_capacity(pool: Pool, report: CapacityReport) -> None:
    """Keep a capacity for the next boundary (T4); what it leaves out stays as it is."""
    check_bounds(report, CAPACITY)
    take_up(pool, pool.clock_ms)
    now = pool.pending_capacity or pool.capacity
    pool.pending_source = report.source
    pool.pending_capacity = Capacity(
        now.tokens_per_s if report.tokens_per_s is None else report.tokens_per_s,
        now.kv_bytes if report.kv_bytes is None else report.kv_bytes,
        now.sequences if report.sequences is None else report.sequences,
    )


def fold_ceiling(pool: Pool, ceiling: QuotaCeiling) -> None:
    """Take what this pool may spend of a quota across pools (Q2); it only rises within a window.

    One of a window that has ended, or of a quota that is not there any more, changes nothing.
    """
    check_bounds(ceiling, CEILING)
    tenant = pool.terms.index.get(ceiling.tenant)
    if tenant is not None:
        give(pool.quotas, tenant, ceiling.user, ceiling.window_id, ceiling.tokens)


def _capacities(spec: PoolSpec) -> tuple[object, ...]:
    return spec.capacity, tuple(spec.schedule), tuple(spec.zones) if spec.schedule else ()


def _checked(pool: Pool, report: UsageReport) -> Ints:
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
    return _table(totals, rows)


def _table(totals: Totals, rows: int) -> Ints:
    """The columns of a report as one array of shape (columns, rows), checked."""
    table = np.zeros((len(COLUMNS), rows), dtype=np.int64)
    places, columns = [], []
    for place, values in enumerate(READ(totals)):
        if not values:
            continue
        if len(values) != rows:
            name = COLUMNS[place]
            raise BadRecord(f"totals.{name} has {len(values)} rows: 0 or {rows} are allowed")
        places.append(place)
        columns.append(values)
    try:
        table[places] = np.array(columns, dtype=np.int64).reshape(len(columns), rows)
    except OverflowError as error:
        raise BadRecord(f"totals has a number of more than 64 bits: {error}") from error
    wrong = (table < LOWEST) | (table > HIGHEST)
    if wrong.any():
        place, row = np.argwhere(wrong)[0].tolist()
        least, most = int(LOWEST[place, 0]), int(HIGHEST[place, 0])
        raise BadRecord(
            f"totals.{COLUMNS[place]} has {table[place, row]}: {least} to {most} is allowed"
        )
    return table


def last_sequence(pool: Pool, name: str) -> int:
    """The newest report of a gateway that was counted, also of one that was forgotten; 0: none."""
    if name in pool.gateways:
        return pool.gateways[name].sequence
    return pool.gone.get(name, (0, 0))[0]


def gateway_of(pool: Pool, name: str) -> Gateway:
    """The gateway that reports, which may be a new one."""
    if name not in pool.gateways:
        gateway = Gateway(name, len(pool.terms.names), first_ms=pool.clock_ms)
        pool.gateways[name] = gateway
        pool.gone.pop(name, None)
    return pool.gateways[name]


def hear(
    pool: Pool, gateway: Gateway, sequence: int, last: int, applied_ms: int, *, closing: bool
) -> None:
    """Take up what a report says of its gateway, whose newest one was `last` until now."""
    gateway.missing += sequence - last - 1
    gateway.sequence = sequence
    gateway.seen_ms = pool.clock_ms
    gateway.reported = True
    confirm(gateway, applied_ms)
    if closing:
        gateway.closed = True
        gateway.issued = []


def _rows(pool: Pool, tenants: Ints, table: Ints, cut_ms: int) -> _Rows:
    event_ms = np.minimum(cut_ms - table[PLACE["age_ms"]], pool.clock_ms)
    charged = charged_by(pool, *table[TOKENS])
    return _Rows(tenants, table, charged, event_ms, is_recent(pool, event_ms))


def _count(pool: Pool, gateway: Gateway, rows: _Rows) -> None:
    tenants, table, charged, event_ms, recent = rows
    counters = np.concatenate([table[ENDED], charged[None], table[HELD_BACK]])
    place = tenants * len(COUNTERS) + COUNTER
    # NumPy adds to a flat array in a fraction of the time.
    np.add.at(pool.totals.reshape(-1), place.ravel(), counters.ravel())
    add_tokens(pool.window, tenants, event_ms, charged)
    if not np.all(recent):
        tenants, table, charged = tenants[recent], table[:, recent], charged[recent]
    np.add.at(gateway.spent, tenants, np.maximum(charged, 0))
    sums = (
        gateway.refused,
        pool.tally.refused,
        pool.tally.waits,
        pool.tally.ended,
        pool.tally.failed,
    )
    filled: list[bool] = np.any(table, axis=1).tolist()
    for added, row in zip(sums, RECENT, strict=True):
        if filled[row]:
            np.add.at(added, tenants, table[row])


def _count_quotas(pool: Pool, report: UsageReport, rows: _Rows, cut_ms: int, heard_ms: int) -> None:
    """Charge the windows of quotas; what came late or was kept in a spool too (T7)."""
    tenants, table, charged, event_ms, recent = rows
    share = share_of(pool.quotas, report.gateway)
    if not pool.gateways[report.gateway].more:  # gauges are whole in each complete report (R2)
        share.figures[HELD] = 0
    if not report.more:
        share.told_ms = max(share.told_ms, cut_ms)
    asked = np.where(recent, np.maximum(charged, 0) + table[PLACE["refused_tokens"]], 0)
    users = [report.totals.names[place] for place in report.totals.user]
    count(
        pool.quotas,
        report.gateway,
        tenants,
        users,
        event_ms,
        charged,
        asked,
        table[PLACE["held_tokens"]],
        pool.clock_ms,
        heard_ms,
    )


def charged_by(pool: Pool, uncached: Ints, cached: Ints, out: Ints) -> Ints:
    """The charged tokens of each row, by what it has of each kind."""
    weights = pool.spec.token_weights if pool.spec else None
    by_kind = (weights.uncached, weights.cached, weights.out) if weights else UNWEIGHTED
    if by_kind == UNWEIGHTED:
        charged: Ints = uncached + cached + out
    else:
        charged = (uncached * by_kind[0] + cached * by_kind[1] + out * by_kind[2]) // ONE
    return charged


def is_recent(pool: Pool, event_ms: Ints) -> Bools:
    """What was kept in a spool is no demand of this interval."""
    interval_ms = pool.spec.interval_ms if pool.spec else 1000
    recent: Bools = event_ms > pool.boundary_ms - 2 * interval_ms
    return recent


def _gauge(gateway: Gateway, tenants: Ints, table: Ints, more: bool) -> None:
    """Gauges are whole in each complete report: what is absent is 0 (R2)."""
    held = table[-len(GAUGES) :]
    if held.any():
        place = tenants + gateway.tenants * GAUGE
        np.add.at(gateway.filling.reshape(-1), place.ravel(), held.ravel())
    gateway.more = more
    if not more:
        gateway.gauges[:] = gateway.filling
        gateway.filling[:] = 0
