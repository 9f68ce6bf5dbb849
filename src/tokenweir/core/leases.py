"""Split the grants over the gateways, giving only what is not given already (PROTOCOL L1, L3).

All matrices have the shape (gateways, tenants + 1): the last column is the starter pots, which are
leases like any other (L8).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tokenweir.core.issued import given, newest, remember, renewable, restate
from tokenweir.core.occupancy import Occupancy, by_class, limits
from tokenweir.core.occupancy import held as occupancy_held
from tokenweir.core.pool import DEMAND, Gateway, Issue, Pool, gathered
from tokenweir.core.share import cut, split
from tokenweir.core.terms import Ints, standing
from tokenweir.records.spec import PoolSpec


class Leased(NamedTuple):
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
    demand = gathered(pool)[:, DEMAND]
    gateways = [*pool.gateways.values()]
    if not gateways:
        return Leased({}, np.zeros_like(grant), np.zeros(0, dtype=np.int64))
    held = given(gateways, len(grant), at_ms)
    live = [renewable(gateway, spec, at_ms) for gateway in gateways]
    most = np.concatenate((grant, (pots,)))
    wanted = _wanted(demand, live, most)
    rates = np.minimum(wanted, held.rates)
    lacks = np.add.accumulate(wanted - rates)
    total = held.rates.sum(axis=0)
    free = ceiling - int(total.sum())
    if free < 0:
        rates = _shrunk(rates, gateways, live, pool, weight, ceiling, at_ms)
    # What can be added: within each grant, and all within the ceiling (L3).
    growth = np.minimum(lacks[-1], np.maximum(most - total, 0))
    if int(growth.sum()) > max(free, 0):
        growth = by_class(growth, max(free, 0), standing(pool.terms).levels, weight)
    grown = cut(growth, lacks)
    rates += grown
    leased = np.array((rates, _floors(rates, held.floors, pool)))
    occupied = np.zeros((len(occupancies), *rates.shape), dtype=np.int64)
    for kind, granted in enumerate(occupancies):
        if granted is not None:
            occupied[kind] = _occupied(kind, granted, gateways, live, pool, spec, weight, at_ms)
    issues = _issue(gateways, live, leased, occupied, at_ms, spec)
    # Nothing grows but on top of what was given.
    return Leased(issues, (total + growth)[:-1], (held.rates + grown).sum(axis=1))


def _wanted(demand: Ints, live: Sequence[bool], most: Ints) -> Ints:
    """The grants, split by demand over the live gateways, and the pots in equal parts."""
    keys = np.empty((len(live), len(most)), dtype=np.int64)
    keys[:, :-1], keys[:, -1] = demand, 1
    if all(live):
        return split(most, keys)
    wanted = np.zeros_like(keys)
    wanted[live] = split(most, keys[live])
    return wanted


def _issue(
    gateways: Sequence[Gateway],
    live: Sequence[bool],
    leased: Ints,
    occupied: Ints,
    at_ms: int,
    spec: PoolSpec,
) -> dict[str, Issue]:
    """What each gateway is sent, of those that reported."""
    issues = {}
    expires_ms, floor_expires_ms = at_ms + spec.lease_ms, at_ms + spec.floor_ms
    parts = zip(gateways, live, leased.swapaxes(0, 1), occupied.swapaxes(0, 1), strict=True)
    for gateway, is_live, own, places in parts:
        if is_live:
            issue = Issue(at_ms, expires_ms, floor_expires_ms, own, places)
            remember(gateway, issue)
            issues[gateway.name] = issue
        elif gateway.reported and not gateway.closed:
            issues[gateway.name] = restate(gateway, at_ms)
    return issues


def _shrunk(
    rates: Ints,
    gateways: Sequence[Gateway],
    live: Sequence[bool],
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
    rates = np.where(np.array(live)[:, None], np.minimum(rates, last), 0)
    others = [gateway for gateway, is_live in zip(gateways, live, strict=True) if not is_live]
    free = ceiling - sum(int(newest(gateway, at_ms, silent=True).sum()) for gateway in others)
    total = rates.sum(axis=0)
    if int(total.sum()) <= free:
        return rates
    fits = by_class(total, max(free, 0), standing(pool.terms).levels, weight)
    return np.minimum(cut(fits, np.add.accumulate(rates)), rates)


def _occupied(
    kind: int,
    granted: Occupancy,
    gateways: Sequence[Gateway],
    live: Sequence[bool],
    pool: Pool,
    spec: PoolSpec,
    weight: Ints,
    at_ms: int,
) -> Ints:
    given = occupancy_held(gateways, kind, len(pool.terms.names), spec.longest_request_ms, at_ms)
    levels = standing(pool.terms).levels
    return limits(gateways, kind, np.array(live), given, granted, weight, levels)


def _floors(rates: Ints, held: Ints, pool: Pool) -> Ints:
    """The part of each rate that outlives its lease; a tenant's add up to its baseline (L1)."""
    baseline = standing(pool.terms).lasting_floor
    upto = np.add.accumulate(rates)
    wanted = np.minimum(cut(np.minimum(baseline, upto[-1]), upto), rates)
    floors = np.minimum(wanted, held)
    lacks = np.add.accumulate(wanted - floors)
    growth = np.minimum(lacks[-1], np.maximum(baseline - held.sum(axis=0), 0))
    return np.minimum(floors + cut(growth, lacks), rates)
