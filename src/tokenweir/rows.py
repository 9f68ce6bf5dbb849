"""A pool's state as rows of bytes, and back: for the tables, for snapshots, for review.

A key begins with the table that the row belongs to. A row of `consumption`, `ewma` and `debt` holds
a block of up to 256 tenants, because Faust writes and restores rows at the same speed whatever they
hold. The same state gives the same bytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import astuple

import numpy as np

from tokenweir.core.alpha import UNTUNED, TuningState
from tokenweir.core.breaker import BreakerState, Outcomes
from tokenweir.core.pool import (
    COUNTERS,
    NORMAL,
    Gateway,
    Issue,
    Pool,
    new_pool,
)
from tokenweir.core.tally import TALLIES, Tally
from tokenweir.core.terms import Ints, terms_of
from tokenweir.core.tier import TierState
from tokenweir.core.window import Window
from tokenweir.quota_rows import quota_rows, restore_quotas
from tokenweir.records.rows import BlockRow, GatewayRow, PoolRow
from tokenweir.records.spec import PoolSpec
from tokenweir.wire import decode_as, encode

BLOCK = 256
ISSUED = 4  # figures of each tenant in an issue: rate, floor, sequences, MiB of the KV cache
EWMA = tuple(name for name in TALLIES if name != "debt")


def to_rows(pool: Pool) -> dict[str, bytes]:
    """The rows of one pool, by key, in the order of their keys."""
    tally = np.stack([getattr(pool.tally, name) for name in EWMA], axis=1)
    rows = {f"pools/{pool.name}": encode(_pool_row(pool))}
    for name in sorted(pool.gateways):
        rows[f"pools/{pool.name}/{name}"] = encode(_gateway_row(pool, pool.gateways[name]))
    rows |= quota_rows(pool.name, pool.quotas)
    tables = {
        "consumption": np.concatenate([pool.totals, pool.window.tokens.T], axis=1),
        "debt": pool.tally.debt[:, None],
        "ewma": tally,
    }
    for table, array in tables.items():
        for start in range(0, len(array), BLOCK):
            key = f"{table}/{pool.name}/{start // BLOCK:05}"
            rows[key] = encode(_block_row(pool, array, start))
    return dict(sorted(rows.items()))


def from_rows(rows: Mapping[str, bytes]) -> Pool:
    """The pool whose rows these are; raises `BadRecord` if one is no row, `KeyError` if one lacks.

    The tenants may stand in any order of blocks: they are sorted by name (A2).
    """
    found = {key.split("/", 2)[1] for key in rows}
    if len(found) != 1:
        raise KeyError(f"rows of {sorted(found)}: those of exactly one pool are needed")
    name = found.pop()
    row = decode_as(PoolRow, rows[f"pools/{name}"])
    pool = new_pool(name)
    _restore_pool(pool, row)
    consumption = _table(pool, rows, "consumption")
    pool.totals = consumption[:, : len(COUNTERS)].copy()
    flows = np.frombuffer(row.flows, dtype="<i8").reshape(7, row.seconds).astype(np.int64)
    pool.window = Window(consumption[:, len(COUNTERS) :].T.copy(), flows, row.newest_s)
    tally = dict(zip(EWMA, _widened(_table(pool, rows, "ewma"), len(EWMA)).T.copy(), strict=True))
    pool.tally = Tally(**tally, debt=_table(pool, rows, "debt")[:, 0].copy())
    for gateway in row.gateways:
        restored = decode_as(GatewayRow, rows[f"pools/{name}/{gateway}"])
        pool.gateways[gateway] = _restore_gateway(pool, restored)
    pool.quotas = restore_quotas(name, rows, pool.spec, pool.terms, pool.boundary_ms)
    return pool


def _pool_row(pool: Pool) -> PoolRow:
    gone = sorted(pool.gone)
    return PoolRow(
        pool=pool.name,
        clock_ms=pool.clock_ms,
        boundary_ms=pool.boundary_ms,
        spec=encode(pool.spec) if pool.spec else None,
        pending_spec=encode(pool.pending_spec) if pool.pending_spec else None,
        capacity=pool.capacity,
        pending_capacity=pool.pending_capacity,
        tier=pool.tier.tier,
        above=pool.tier.above,
        below_since_ms=pool.tier.below_since_ms,
        level=pool.level,
        barred=[name for name, _ in pool.barred],
        barred_reason=[reason for _, reason in pool.barred],
        notes=pool.notes,
        newest_s=pool.window.newest,
        seconds=pool.window.flows.shape[1],
        flows=_bytes(pool.window.flows),
        gateways=sorted(pool.gateways),
        gone=gone,
        gone_sequence=[pool.gone[name][0] for name in gone],
        gone_seen_ms=[pool.gone[name][1] for name in gone],
        fell_ms=pool.tier.fell_ms,
        total=pool.total,
        breaker=pool.breaker.breaker,
        breaker_since_ms=pool.breaker.since_ms,
        breaker_above=pool.breaker.above,
        cool_off_ms=pool.breaker.cool_off_ms,
        ended_rate=pool.outcomes.ended,
        failed_rate=pool.outcomes.failed,
        tuning=_tuning(pool.tuning),
        pending_source=pool.pending_source,
        scheduled_ms=pool.scheduled_ms,
    )


def _restore_pool(pool: Pool, row: PoolRow) -> None:
    pool.clock_ms, pool.boundary_ms = row.clock_ms, row.boundary_ms
    pool.spec = decode_as(PoolSpec, row.spec) if row.spec else None
    pool.pending_spec = decode_as(PoolSpec, row.pending_spec) if row.pending_spec else None
    pool.capacity, pool.pending_capacity = row.capacity, row.pending_capacity
    pool.terms = terms_of(pool.spec, pool.capacity)
    fell_ms = tuple(row.fell_ms) or NORMAL.fell_ms
    pool.tier = TierState(row.tier, tuple(row.above), tuple(row.below_since_ms), fell_ms)
    pool.total = row.total
    pool.breaker = BreakerState(
        row.breaker, row.breaker_since_ms, row.breaker_above, row.cool_off_ms
    )
    pool.outcomes = Outcomes(row.ended_rate, row.failed_rate)
    pool.tuning = _restore_tuning(row.tuning)
    pool.pending_source, pool.scheduled_ms = row.pending_source, row.scheduled_ms
    pool.level, pool.notes = row.level, row.notes
    pool.barred = tuple(zip(row.barred, row.barred_reason, strict=True))
    pool.gone = {
        name: (sequence, seen_ms)
        for name, sequence, seen_ms in zip(
            row.gone, row.gone_sequence, row.gone_seen_ms, strict=True
        )
    }


def _tuning(state: TuningState) -> tuple[int, ...]:
    *figures, alphas = astuple(state)
    return (*figures, *alphas)


def _restore_tuning(row: Sequence[int]) -> TuningState:
    """Rows of before there was tuning have nothing of it."""
    if not row:
        return UNTUNED
    looked_ms, place, was, changed_ms, asked, raised_at, lowered_at, *alphas = row
    return TuningState(
        looked_ms, place, was, changed_ms, asked, raised_at, lowered_at, tuple(alphas)
    )


def _gateway_row(pool: Pool, gateway: Gateway) -> GatewayRow:
    issued = np.zeros((len(gateway.issued), ISSUED, gateway.tenants), dtype=np.int64)
    for place, issue in enumerate(gateway.issued):
        issued[place] = *issue.leased[:, :-1], *issue.occupied[:, :-1]
    used = np.flatnonzero(gateway.figures.any(axis=0) | issued.any(axis=(0, 1)))
    return GatewayRow(
        gateway=gateway.name,
        sequence=gateway.sequence,
        missing=gateway.missing,
        first_ms=gateway.first_ms,
        seen_ms=gateway.seen_ms,
        applied_ms=gateway.applied_ms,
        parts=gateway.parts,
        reported=gateway.reported,
        closed=gateway.closed,
        more=gateway.more,
        tenant=[pool.terms.names[place] for place in used.tolist()],
        figures=_bytes(gateway.figures[:, used]),
        issued_ms=[issue.at_ms for issue in gateway.issued],
        expires_ms=[issue.expires_ms for issue in gateway.issued],
        floor_expires_ms=[issue.floor_expires_ms for issue in gateway.issued],
        pot=[issue.pot for issue in gateway.issued],
        issued=_bytes(issued[:, :, used]),
        issued_columns=ISSUED,
        pot_occupied=[
            amount for issue in gateway.issued for amount in issue.occupied[:, -1].tolist()
        ],
    )


def _restore_gateway(pool: Pool, row: GatewayRow) -> Gateway:
    tenants = len(pool.terms.names)
    place = pool.terms.find(row.tenant)
    gateway = Gateway(
        row.gateway,
        tenants,
        row.sequence,
        row.missing,
        row.first_ms,
        row.seen_ms,
        row.applied_ms,
        row.parts,
        row.reported,
        row.closed,
        row.more,
    )
    kept = len(row.figures) // (8 * max(len(place), 1))
    # Older rows have fewer, and in the place of what is coming in the gauges of before.
    gateway.figures[:kept] = _spread(row.figures, (kept, len(place)), place, tenants)
    if not gateway.more:
        gateway.filling[:] = 0
    issues = len(row.issued_ms)
    issued = np.zeros((issues, ISSUED, tenants + 1), dtype=np.int64)
    shape = (issues, row.issued_columns, len(place))
    issued[:, : row.issued_columns, :-1] = _spread(row.issued, shape, place, tenants)
    issued[:, 0, -1] = row.pot
    if row.pot_occupied:  # older rows have none
        issued[:, 2:, -1] = np.array(row.pot_occupied).reshape(issues, 2)
    gateway.issued = [
        Issue(
            row.issued_ms[n],
            row.expires_ms[n],
            row.floor_expires_ms[n],
            issued[n, :2].copy(),
            issued[n, 2:].copy(),
        )
        for n in range(issues)
    ]
    return gateway


def _block_row(pool: Pool, array: Ints, start: int) -> BlockRow:
    names = list(pool.terms.names[start : start + BLOCK])
    return BlockRow(names, array.shape[1], _bytes(array[start : start + BLOCK]))


def _table(pool: Pool, rows: Mapping[str, bytes], table: str) -> Ints:
    prefix = f"{table}/{pool.name}/"
    blocks = [decode_as(BlockRow, rows[key]) for key in rows if key.startswith(prefix)]
    names = [name for block in blocks for name in block.tenant]
    if sorted(names) != sorted(pool.terms.names):
        raise KeyError(f"{table} has {len(names)} tenants, the spec {len(pool.terms.names)}")
    array = np.concatenate(
        [np.frombuffer(block.values, dtype="<i8").reshape(-1, block.columns) for block in blocks]
    )
    ordered = np.empty(array.shape, dtype=np.int64)
    ordered[pool.terms.find(names)] = array
    return ordered


def _widened(array: Ints, columns: int) -> Ints:
    """Columns that an older version did not know are 0."""
    return np.pad(array, ((0, 0), (0, columns - array.shape[1])))


def _bytes(array: Ints) -> bytes:
    return np.ascontiguousarray(array, dtype="<i8").tobytes()


def _spread(data: bytes, shape: tuple[int, ...], place: Ints, tenants: int) -> Ints:
    spread = np.zeros((*shape[:-1], tenants), dtype=np.int64)
    spread[..., place] = np.frombuffer(data, dtype="<i8").reshape(shape)
    return spread
