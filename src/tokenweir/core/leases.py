"""Split the grants over the gateways, giving only what is not given already (PROTOCOL L1, L3).

All matrices have the shape (gateways, tenants + 1): the last column is the starter pots, which are
leases like any other (L8).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tokenweir.core.issued import given, newest, remember, renewable, restated
from tokenweir.core.occupancy import Occupancy, by_class, limits
from tokenweir.core.occupancy import held as occupancy_held
from tokenweir.core.pool import Gateway, Issue, Pool
from tokenweir.core.share import split
from tokenweir.core.terms import Ints
from tokenweir.records.spec import PoolSpec


@dataclass(frozen=True, slots=True)
class Leased:
    """The outcome of one decision's leases."""

    issues: dict[str, Issue]  # by gateway: what it is sent now
    given: Ints  # (tenants,): what all gateways together may use, unconfirmed leases included
    by_gateway: Ints  # (gateways,)


def lease(
    pool: Pool,
    spec: PoolSpec,
    grant: Ints,
    weight: Ints,
    at_ms: int,
    pots: int,
    ceiling: int,
    occupancies: Sequence[Occupancy | None] = (None, None),
) -> Leased:
    """Issue leases for `grant` (tenants,) and `pots`; all of them fit under `ceiling` (L3).

    `occupancies` are what may be occupied of sequences and of the KV cache, where it is limited.
    """
    gateways = [pool.gateways[name] for name in sorted(pool.gateways)]
    held = given(gateways, len(grant), at_ms)
    live = np.array([renewable(gateway, spec, at_ms) for gateway in gateways], dtype=np.bool_)
    wanted = _wanted(gateways, live, grant, pots)
    rates = np.minimum(wanted, held.rates)
    if int(held.rates.sum()) > ceiling:
        rates = _shrunk(rates, gateways, live, pool, weight, ceiling, at_ms)
    rates[live] += _growth(wanted, held.rates, live, pool, grant, weight, pots, ceiling)[live]
    floors = _floors(rates[:, :-1], held.floors, live, pool)
    occupied = np.zeros((len(gateways), len(occupancies), len(grant) + 1), dtype=np.int64)
    for kind, granted in enumerate(occupancies):
        if granted is not None:
            occupied[:, kind] = _occupied(kind, granted, gateways, live, pool, spec, weight, at_ms)
    issues = {}
    for row, gateway in enumerate(gateways):
        if live[row]:
            issue = Issue(
                at_ms,
                at_ms + spec.lease_ms,
                at_ms + spec.floor_ms,
                rates[row, :-1],
                floors[row],
                int(rates[row, -1]),
                occupied[row, :, :-1],
                (int(occupied[row, 0, -1]), int(occupied[row, 1, -1])),
            )
        elif gateway.reported and not gateway.closed:
            issue = restated(gateway, at_ms, len(grant))
        else:
            continue
        issues[gateway.name] = issue
        remember(gateway, issue)
    after = np.maximum(held.rates, np.where(live[:, None], rates, 0))
    return Leased(issues, after[:, :-1].sum(axis=0), after.sum(axis=1))


def _wanted(gateways: Sequence[Gateway], live: np.ndarray, grant: Ints, pots: int) -> Ints:
    wanted = np.zeros((len(gateways), len(grant) + 1), dtype=np.int64)
    keys = [gateway.demand for gateway, is_live in zip(gateways, live, strict=True) if is_live]
    if keys:
        wanted[live, :-1] = split(grant, np.stack(keys))
        each = split(np.array([pots], dtype=np.int64), np.ones((len(keys), 1), dtype=np.int64))
        wanted[live, -1] = each[:, 0]
    return wanted


def _growth(
    wanted: Ints,
    held: Ints,
    live: np.ndarray,
    pool: Pool,
    grant: Ints,
    weight: Ints,
    pots: int,
    ceiling: int,
) -> Ints:
    """What can be added to what is held: within each grant, and all within the ceiling (L3)."""
    more = np.where(live[:, None], np.maximum(wanted - held, 0), 0)
    limits = np.append(grant, pots)
    growth = np.minimum(more.sum(axis=0), np.maximum(limits - held.sum(axis=0), 0))
    free = max(ceiling - int(held.sum()), 0)
    if int(growth.sum()) > free:
        growth = by_class(growth, free, pool.terms.rank, weight)
    return _parts(growth, more)


def _shrunk(
    rates: Ints,
    gateways: Sequence[Gateway],
    live: np.ndarray,
    pool: Pool,
    weight: Ints,
    ceiling: int,
    at_ms: int,
) -> Ints:
    """While what is given does not fit, nothing grows, and what is issued now does fit (L3).

    Else two gateways that report in turn would both be sent what the other still has, and the sum
    would not fit one lease life after the capacity has dropped. Floors of silent gateways live
    longer than that, and are not taken from the others here.
    """
    last = np.stack([newest(gateway, at_ms, silent=False) for gateway in gateways])
    rates = np.where(live[:, None], np.minimum(rates, last), 0)
    others = [gateway for gateway, is_live in zip(gateways, live, strict=True) if not is_live]
    free = ceiling - sum(int(newest(gateway, at_ms, silent=True).sum()) for gateway in others)
    total = rates.sum(axis=0)
    if int(total.sum()) <= free:
        return rates
    fits = by_class(total, max(free, 0), pool.terms.rank, weight)
    return np.minimum(_parts(fits, rates), rates)


def _occupied(
    kind: int,
    granted: Occupancy,
    gateways: Sequence[Gateway],
    live: np.ndarray,
    pool: Pool,
    spec: PoolSpec,
    weight: Ints,
    at_ms: int,
) -> Ints:
    given = occupancy_held(gateways, kind, pool.terms, spec.longest_request_ms, at_ms)
    return limits(gateways, kind, live, given, granted, weight, pool.terms.rank)


def _floors(rates: Ints, held: Ints, live: np.ndarray, pool: Pool) -> Ints:
    """The part of each rate that outlives its lease; a tenant's add up to its baseline (L1)."""
    terms = pool.terms
    baseline = np.where(terms.floor_on_silence & ~terms.suspended, terms.baseline, 0)
    wanted = np.zeros_like(rates)
    if live.any():
        total = rates[live].sum(axis=0)
        wanted[live] = np.minimum(split(np.minimum(baseline, total), rates[live]), rates[live])
    floors = np.minimum(wanted, held)
    more = wanted - floors
    growth = np.minimum(more.sum(axis=0), np.maximum(baseline - held.sum(axis=0), 0))
    return np.minimum(floors + _parts(growth, more), rates)


def _parts(growth: Ints, more: Ints) -> Ints:
    """Each tenant's growth, split over the gateways that want more, and only over those."""
    if not growth.any():
        return np.zeros_like(more)
    parts: Ints = split(growth, more)
    parts[:, ~more.any(axis=0)] = 0
    return parts
