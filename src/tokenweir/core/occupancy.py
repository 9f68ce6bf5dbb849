"""Sequences and KV bytes: who may occupy how much (DESIGN, decision 6), by gateway (PROTOCOL L2).

Both are shared like tokens are: floors, α, caps, weights, headroom. But what runs cannot be taken
back by a smaller grant: it counts until it ends. KV bytes are counted in MiB, so that products stay
within 64 bits; grants round down, occupancy up. Matrices have the shape (gateways, tenants + 1):
the last column is the starter pots.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tokenweir.core import ONE
from tokenweir.core.grants import grants
from tokenweir.core.pool import Gateway, Pool
from tokenweir.core.share import share, split, split_whole
from tokenweir.core.terms import MIB, UNLIMITED, Bools, Ints, Terms
from tokenweir.records.spec import Capacity, PoolSpec

SEQUENCES, KV = range(2)  # the rows of `Issue.occupied`
GAUGE = (1, 2)  # their rows in `Gateway.gauges`
UNIT = (1, MIB)


@dataclass(frozen=True, slots=True)
class Occupancy:
    """What may be occupied of one resource until the next decision."""

    grant: Ints  # (tenants,)
    pots: int  # by tenants without a lease
    most: int  # all together


def limit(capacity: Capacity, kind: int) -> int | None:
    """How much of the resource there is; None: it is not limited."""
    amount = (capacity.sequences, capacity.kv_bytes)[kind]
    return None if amount is None else amount // UNIT[kind]


def occupancy(
    pool: Pool,
    spec: PoolSpec,
    kind: int,
    demand: Ints,
    weight: Ints,
    action: Ints,
    seen: Bools,
    most: int,
) -> Occupancy | None:
    """Grant a resource, of which at most `most` millionths are granted; None: it is not limited."""
    capacity = limit(pool.capacity, kind)
    if capacity is None:
        return None
    carry = (pool.tally.carry_sequences, pool.tally.carry_kv)[kind]
    pots = capacity * spec.pots // ONE
    all_ = capacity * most // ONE
    granted = grants(
        max(all_ - pots, 0),
        demand,
        weight,
        _terms(pool.terms, kind),
        spec,
        action,
        seen,
        carry,
        capacity,
    )
    return Occupancy(granted.grant, min(pots, all_), all_)


def _terms(terms: Terms, kind: int) -> Terms:
    """The terms with what is reserved and capped of this resource in the place of tokens."""
    reserved = (terms.sequences, terms.kv)[kind]
    cap = (terms.sequence_cap, terms.kv_cap)[kind]
    return replace(
        terms,
        baseline=np.minimum(reserved, cap),
        borrow_cap=np.where(cap < UNLIMITED, np.maximum(cap - reserved, 0), UNLIMITED),
        lend_cap=np.full_like(reserved, UNLIMITED),
    )


def held(gateways: Sequence[Gateway], kind: int, tenants: int, longest_ms: int, at_ms: int) -> Ints:
    """The most that may be occupied at each gateway by what was issued, or is (L2).

    The largest limit issued since `applied`; a request that began at its very end may run for the
    longest time that the spec allows. Where a floor goes on, so do the requests that it lets in.
    Tenants that left the spec are among the unknown, here and at the gateways.
    """
    most = np.zeros((len(gateways), tenants + 1), dtype=np.int64)
    for row, gateway in enumerate(gateways):
        if at_ms - gateway.seen_ms < longest_ms:
            most[row, :-1] = -(-gateway.gauges[GAUGE[kind]] // UNIT[kind])
        leases = at_ms < longest_ms + max((i.expires_ms for i in gateway.issued), default=0)
        floors = at_ms < longest_ms + max((i.floor_expires_ms for i in gateway.issued), default=0)
        for issue in gateway.issued:
            binds = leases | (floors & (issue.leased[1] > 0))
            issued = np.where(binds, issue.occupied[kind], 0)
            np.maximum(most[row], issued, out=most[row])
    return most


def limits(
    gateways: Sequence[Gateway],
    kind: int,
    live: Bools,
    given: Ints,
    granted: Occupancy,
    weight: Ints,
    levels: Bools,
) -> Ints:
    """Each gateway's limits: only what is not given can be given (L3); 0 for those not live."""
    if not live.any():
        return np.zeros_like(given)
    wanted = _wanted(gateways, live, granted)
    issued = np.where(live[:, None], np.minimum(wanted, given), 0)
    free = granted.most - int(given.sum())
    if free < 0:  # nothing grows, and what is issued now fits
        issued = np.minimum(issued, _newest(gateways, kind, given.shape[1]))
        rest = max(granted.most - int(given[~live].sum()), 0)
        fits = by_class(issued.sum(axis=0), rest, levels, weight)
        fitting: Ints = np.minimum(split_whole(fits, issued), issued)
        return fitting
    more = np.where(live[:, None], np.maximum(wanted - given, 0), 0)
    room = np.append(granted.grant, granted.pots) - given.sum(axis=0)
    growth = np.minimum(more.sum(axis=0), np.maximum(room, 0))
    if int(growth.sum()) > free:
        growth = by_class(growth, free, levels, weight)
    grown: Ints = np.where(more.sum(axis=0) > 0, split_whole(growth, more), 0)
    return issued + grown


def _wanted(gateways: Sequence[Gateway], live: Bools, granted: Occupancy) -> Ints:
    """The grants split by each gateway's demand, and the pots equally."""
    wanted = np.zeros((len(gateways), len(granted.grant) + 1), dtype=np.int64)
    keys = np.stack([g.demand for g, is_live in zip(gateways, live, strict=True) if is_live])
    wanted[live, :-1] = split_whole(granted.grant, keys)
    pots = np.array([granted.pots], dtype=np.int64)
    wanted[live, -1] = split(pots, np.ones((len(keys), 1), dtype=np.int64))[:, 0]
    return wanted


def _newest(gateways: Sequence[Gateway], kind: int, columns: int) -> Ints:
    newest = np.zeros((len(gateways), columns), dtype=np.int64)
    for row, gateway in enumerate(gateways):
        if gateway.issued:
            newest[row] = gateway.issued[-1].occupied[kind]
    return newest


def by_class(growth: Ints, free: int, levels: Bools, weight: Ints) -> Ints:
    """The pots first, then the classes from the highest down, by weight inside a class.

    `levels` of shape (classes, tenants) says who is of which, the highest first.
    """
    pot = min(int(growth[-1]), free)
    free -= pot
    parts = growth[:-1] * levels
    whole = 0  # so many classes get all that they want
    for wanted in parts.sum(axis=1).tolist():
        if wanted > free:
            parts[whole] = share(free, weight, parts[whole])
            whole += 1
            break
        whole += 1
        free -= wanted
    return np.concatenate((parts[:whole].sum(axis=0), (pot,)))
