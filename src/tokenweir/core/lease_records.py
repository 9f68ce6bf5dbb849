"""What each gateway is sent: its leases, in one record or in parts (L9)."""

import zlib
from collections.abc import Sequence

import numpy as np

from tokenweir.core.decide import Verdict
from tokenweir.core.occupancy import KV, SEQUENCES, UNIT, limit
from tokenweir.core.pool import Issue, Pool
from tokenweir.core.quota.records import Ceilings, ceilings_of
from tokenweir.core.terms import Ints
from tokenweir.records.control import GatewayLeases

LEASES_A_PART = 1000
NO_LIMIT = -1


def _held(issue: Issue) -> Ints:
    """The tenants that have a lease in an issue; all whom no spec knows are one."""
    return np.flatnonzero((issue.rates > 0) | (issue.floors > 0))


def parts_of(verdict: Verdict) -> int:
    """How many records each gateway's leases take (L9)."""
    leased, shown = verdict.leased, len(verdict.guarded.shown)
    most = len(leased.given) if leased.issues else 0
    if most > LEASES_A_PART:
        most = max(len(_held(issue)) for issue in leased.issues.values())
    return max(1, -(-max(most, shown) // LEASES_A_PART))


def note_parts(pool: Pool, verdict: Verdict, parts: int) -> None:
    """Remember the most records that each gateway ever had, to take them back one day."""
    for name in verdict.leased.issues:
        gateway = pool.gateways[name]
        gateway.parts = max(gateway.parts, parts)


def lease_records(pool: Pool, verdict: Verdict, parts: int) -> tuple[GatewayLeases, ...]:
    """Every part of every gateway that is sent leases now."""
    records = []
    shown = verdict.guarded.shown
    part_of_shown = _part_of(pool.terms.names, pool.quotas.accounts.tenant[shown], parts)
    for name, issue in sorted(verdict.leased.issues.items()):
        held = _held(issue)
        part_of = _part_of(pool.terms.names, held, parts)
        records += [
            _part(
                pool,
                name,
                issue,
                held[part_of == part],
                part,
                parts,
                ceilings_of(pool.quotas, verdict.guarded, name, shown[part_of_shown == part]),
            )
            for part in range(parts)
        ]
    return tuple(records)


def _part_of(names: Sequence[str], held: Ints, parts: int) -> Ints:
    """The part of each tenant, by a fixed hash of its name (L9)."""
    if parts == 1:
        return np.zeros(len(held), dtype=np.int64)
    return np.array([zlib.crc32(names[place].encode()) % parts for place in held.tolist()])


def _part(
    pool: Pool,
    gateway: str,
    issue: Issue,
    held: Ints,
    part: int,
    parts: int,
    ceilings: Ceilings,
) -> GatewayLeases:
    assert pool.spec is not None
    interval_ms, burst = pool.spec.interval_ms, pool.spec.burst
    rates = issue.rates[held]
    pot = issue.pot if part == 0 else 0
    capacity = max(pool.capacity.tokens_per_s, 1)

    def bursts(rate: Ints) -> list[int]:
        # The bursts of all leases add up to the pool's: one interval, or what the spec says (L1).
        part = rate * interval_ms // 1000 if burst is None else rate * (burst / capacity)
        listed: list[int] = part.astype(np.int64).tolist()
        return listed

    def occupied(kind: int) -> list[int]:
        if limit(pool.capacity, kind) is None:
            return [NO_LIMIT] * len(held)
        listed: list[int] = (issue.occupied[kind][held] * UNIT[kind]).tolist()
        return listed

    def pot_occupied(kind: int) -> int:
        limited = limit(pool.capacity, kind) is not None
        return int(issue.occupied[kind, -1]) * UNIT[kind] if limited else NO_LIMIT

    return GatewayLeases(
        pool=pool.name,
        gateway=gateway,
        part=part,
        parts=parts,
        at_ms=issue.at_ms,
        expires_ms=issue.expires_ms,
        floor_expires_ms=issue.floor_expires_ms,
        pot_rate=pot,
        pot_burst=pot * interval_ms // 1000 if burst is None else int(pot * (burst / capacity)),
        tenant=[pool.terms.names[place] for place in held.tolist()],
        rate=rates.tolist(),
        burst=bursts(rates),
        floor=issue.floors[held].tolist(),
        sequences=occupied(SEQUENCES),
        kv_bytes=occupied(KV),
        ceiling_tenant=ceilings.tenant,
        ceiling_user=ceilings.user,
        ceiling_window_id=ceilings.window_id,
        ceiling_starts_ms=ceilings.starts_ms,
        ceiling_ends_ms=ceilings.ends_ms,
        ceiling_tokens=ceilings.tokens,
        pot_sequences=pot_occupied(SEQUENCES),
        pot_kv_bytes=pot_occupied(KV),
    )
