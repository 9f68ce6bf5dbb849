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
from tokenweir.core.pool import Gateway, Issue, Pool, stacked
from tokenweir.core.share import split
from tokenweir.core.terms import Ints, standing
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
    is_live = [renewable(gateway, spec, at_ms) for gateway in gateways]
    live = np.array(is_live, dtype=np.bool_)
    most = np.concatenate((grant, (pots,)))
    wanted = _wanted(gateways, live, most)
    rates = np.minimum(wanted, held.rates)
    total = held.rates.sum(axis=0)
    free = ceiling - int(total.sum())
    if free < 0:
        rates = _shrunk(rates, gateways, live, pool, weight, ceiling, at_ms)
    # What can be added: within each grant, and all within the ceiling (L3).
    more = np.maximum(wanted - held.rates, 0)
    growth = np.minimum(more.sum(axis=0), np.maximum(most - total, 0))
    if int(growth.sum()) > max(free, 0):
        growth = by_class(growth, max(free, 0), standing(pool.terms).levels, weight)
    rates += _parts(growth, more)
    floors = _floors(rates[:, :-1], held.floors, pool)
    occupied = np.zeros((len(gateways), len(occupancies), len(grant) + 1), dtype=np.int64)
    for kind, granted in enumerate(occupancies):
        if granted is not None:
            occupied[:, kind] = _occupied(kind, granted, gateways, live, pool, spec, weight, at_ms)
    issues = {}
    pot, pot_occupied = rates[:, -1].tolist(), occupied[:, :, -1].tolist()
    for row, gateway in enumerate(gateways):
        if is_live[row]:
            issue = Issue(
                at_ms,
                at_ms + spec.lease_ms,
                at_ms + spec.floor_ms,
                rates[row, :-1],
                floors[row],
                pot[row],
                occupied[row, :, :-1],
                (pot_occupied[row][0], pot_occupied[row][1]),
            )
        elif gateway.reported and not gateway.closed:
            issue = restated(gateway, at_ms, len(grant))
        else:
            continue
        issues[gateway.name] = issue
        remember(gateway, issue)
    after = np.maximum(held.rates, rates)
    return Leased(issues, after[:, :-1].sum(axis=0), after.sum(axis=1))


def _wanted(gateways: Sequence[Gateway], live: np.ndarray, most: Ints) -> Ints:
    """The grants, split by demand over the live gateways, and the pots in equal parts."""
    demand = [gateway.demand for gateway, is_live in zip(gateways, live, strict=True) if is_live]
    keys = np.ones((len(demand), len(most)), dtype=np.int64)
    keys[:, :-1] = stacked(demand, len(most) - 1)
    wanted = np.zeros((len(gateways), len(most)), dtype=np.int64)
    wanted[live] = split(most, keys)
    return wanted


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
    fits = by_class(total, max(free, 0), standing(pool.terms).levels, weight)
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
    given = occupancy_held(gateways, kind, len(pool.terms.names), spec.longest_request_ms, at_ms)
    levels = standing(pool.terms).levels
    return limits(gateways, kind, live, given, granted, weight, levels)


def _floors(rates: Ints, held: Ints, pool: Pool) -> Ints:
    """The part of each rate that outlives its lease; a tenant's add up to its baseline (L1)."""
    baseline = standing(pool.terms).lasting_floor
    wanted = np.minimum(split(np.minimum(baseline, rates.sum(axis=0)), rates), rates)
    floors = np.minimum(wanted, held)
    more = wanted - floors
    growth = np.minimum(more.sum(axis=0), np.maximum(baseline - held.sum(axis=0), 0))
    return np.minimum(floors + _parts(growth, more), rates)


def _parts(growth: Ints, more: Ints) -> Ints:
    """Each tenant's growth, which is at most what all want, split over those that want more."""
    return split(growth, more) if growth.any() else np.zeros_like(more)
