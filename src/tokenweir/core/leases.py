"""Split the grants over the gateways, giving only what is not given already (PROTOCOL L1-L4).

All matrices have the shape (gateways, tenants + 1): the last column is the starter pots, which are
leases like any other (L8).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tokenweir.core.pool import Gateway, Issue, Pool
from tokenweir.core.share import share, split
from tokenweir.core.terms import Ints
from tokenweir.records.spec import PoolSpec


@dataclass(frozen=True, slots=True)
class Given:
    """What gateways may use by what was issued (L2), milli-tokens/s."""

    rates: Ints  # (gateways, tenants + 1)
    floors: Ints  # (gateways, tenants): of `rates`, what outlives the lease


@dataclass(frozen=True, slots=True)
class Leased:
    """The outcome of one decision's leases."""

    issues: dict[str, Issue]  # by gateway: what it is sent now
    given: Ints  # (tenants,): what all gateways together may use, unconfirmed leases included
    by_gateway: Ints  # (gateways,)


def renewable(gateway: Gateway, spec: PoolSpec, at_ms: int) -> bool:
    """A lease is renewed if the gateway has reported and obeys a decision that is not too old (L4).

    A gateway that is new obeys none: the moment it was first seen counts instead.
    """
    obeys = max(gateway.applied_ms, gateway.first_ms)
    return gateway.reported and not gateway.closed and at_ms - obeys < spec.lease_ms


def given(gateways: Sequence[Gateway], tenants: int, at_ms: int) -> Given:
    """The most that each gateway may use at `at_ms` (L2).

    The largest rate issued since `applied`, until the latest expiry; then the largest floor, until
    the latest expiry of the floors.
    """
    rates = np.zeros((len(gateways), tenants + 1), dtype=np.int64)
    floors = np.zeros((len(gateways), tenants), dtype=np.int64)
    for row, gateway in enumerate(gateways):
        for issue in gateway.issued:
            np.maximum(floors[row], issue.floors, out=floors[row])
        if at_ms >= max((issue.floor_expires_ms for issue in gateway.issued), default=0):
            floors[row] = 0
        rates[row, :-1] = floors[row]
        if at_ms < max((issue.expires_ms for issue in gateway.issued), default=0):
            for issue in gateway.issued:
                np.maximum(rates[row, :-1], issue.rates, out=rates[row, :-1])
                rates[row, -1] = max(rates[row, -1], issue.pot)
    return Given(rates, floors)


def lease(
    pool: Pool, spec: PoolSpec, grant: Ints, weight: Ints, at_ms: int, pots: int, ceiling: int
) -> Leased:
    """Issue leases for `grant` (tenants,) and `pots`; all of them fit under `ceiling` (L3)."""
    gateways = [pool.gateways[name] for name in sorted(pool.gateways)]
    held = given(gateways, len(grant), at_ms)
    live = np.array([renewable(gateway, spec, at_ms) for gateway in gateways], dtype=np.bool_)
    wanted = _wanted(gateways, live, grant, pots)
    rates = np.minimum(wanted, held.rates)
    rates[live] += _growth(wanted, held.rates, live, pool, grant, weight, pots, ceiling)[live]
    floors = _floors(rates[:, :-1], held.floors, live, pool)
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
            )
        elif gateway.reported and not gateway.closed:
            issue = _restated(gateway, at_ms, len(grant))
        else:
            continue
        issues[gateway.name] = issue
        gateway.issued.append(issue)
    after = np.maximum(held.rates, np.where(live[:, None], rates, 0))
    return Leased(issues, after[:, :-1].sum(axis=0), after.sum(axis=1))


def confirm(gateway: Gateway, applied_ms: int) -> None:
    """The gateway obeys the decision of `applied_ms` completely: older issues bind no more."""
    gateway.applied_ms = max(gateway.applied_ms, applied_ms)
    gateway.issued = [issue for issue in gateway.issued if issue.at_ms >= gateway.applied_ms]


def _restated(gateway: Gateway, at_ms: int, tenants: int) -> Issue:
    """The newest leases again with their old expiry: a way back for who obeys too old a decision.

    Without it the gateway would wait for a decision whose parts are never published (L9).
    """
    if gateway.issued:
        return replace(gateway.issued[-1], at_ms=at_ms)
    nothing = np.zeros(tenants, dtype=np.int64)
    return Issue(at_ms, at_ms, at_ms, nothing, nothing, 0)


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
        growth = _by_class(growth, free, pool, weight)
    return _parts(growth, more)


def _by_class(growth: Ints, free: int, pool: Pool, weight: Ints) -> Ints:
    """The pots first, then the classes from the highest down, by weight inside a class."""
    rank = np.append(pool.terms.rank, 5)
    weight = np.append(weight, 1)
    result = np.zeros_like(growth)
    for level in range(5, -1, -1):
        part = share(free, weight, np.where(rank == level, growth, 0))
        result += part
        free -= int(part.sum())
    return result


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
    parts: Ints = np.where(more.sum(axis=0) > 0, split(growth, more), 0)
    return parts
