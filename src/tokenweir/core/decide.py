"""One decision of one pool: measure, tier, weights, floors, sharing, debt, leases."""

from dataclasses import dataclass

import numpy as np

from tokenweir.core import ONE
from tokenweir.core.actions import REFUSE, actions_of
from tokenweir.core.grants import Grants, grants
from tokenweir.core.leases import Leased, lease
from tokenweir.core.measure import Measures, measure
from tokenweir.core.occupancy import Occupancy, occupancy
from tokenweir.core.pool import Pool
from tokenweir.core.reclaim import loans
from tokenweir.core.revoke import in_flight, is_revoked, revoked
from tokenweir.core.smooth import debt, decay
from tokenweir.core.terms import Bools, Ints
from tokenweir.core.tier import TierState, next_tier
from tokenweir.core.weights import weights
from tokenweir.records.spec import PoolSpec


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was decided, as figures; arrays of shape (tenants,)."""

    at_ms: int
    measures: Measures
    was: TierState
    weight: Ints
    action: Ints  # place in `actions.ACTIONS`
    available: int  # for grants, milli-tokens/s: what the ceiling leaves beside the pots
    grants: Grants
    occupancies: tuple[Occupancy | None, ...]  # sequences, MiB of the KV cache; None: no limit
    leased: Leased
    taken: Ints  # borrowed capacity that this decision took back from somebody who wants it
    grown: Ints  # floors that grew
    revoked: Bools  # whose running work this decision stopped


def decide(pool: Pool, spec: PoolSpec, at_ms: int, skipped: int) -> Verdict:
    """Decide for the boundary `at_ms`; `skipped` boundaries before it had no message (T2)."""
    seen_now = measure(pool, spec, at_ms, skipped)
    pool.level = _smooth_level(pool.level, seen_now.level_now, spec.ewma, skipped)
    was, pool.tier = pool.tier, next_tier(pool.tier, pool.level, spec.tiers, at_ms)
    terms, tally = pool.terms, pool.tally
    weight = weights(terms, spec.weights, tally.burst, tally.debt)
    action = actions_of(tuple(spec.classes), pool.tier.tier, terms.rank)
    capacity = pool.capacity.tokens_per_s
    ceiling = capacity * spec.ceiling // ONE
    pots = capacity * spec.pots // ONE
    held_back = np.where(is_revoked(tally.revoked_ms, at_ms), REFUSE, action)
    present = (seen_now.demand > 0) | (seen_now.used > 0)
    lent = loans(
        tally.borrowed,
        tally.floor,
        tally.lost_ms,
        tally.gained_ms,
        terms,
        spec.reclaim,
        pool.boundary_ms,
        at_ms,
    )
    granted = grants(
        ceiling - pots,
        seen_now.demand,
        weight,
        terms,
        spec,
        held_back,
        present,
        tally.carry,
        capacity,
        lent,
    )
    served = np.minimum(granted.grant, seen_now.demand)
    owed = terms.of_class(2, 2)
    paid = debt(tally.debt, seen_now.demand, served, terms.baseline, spec.debt_gain)
    paid = decay(paid, spec.debt_gain, skipped)
    occupancies = tuple(
        occupancy(pool, spec, kind, wanted, weight, held_back, present, spec.ceiling)
        for kind, wanted in enumerate((seen_now.sequences, seen_now.kv))
    )
    leased = lease(pool, spec, granted.grant, weight, at_ms, pots, ceiling, occupancies)
    short = seen_now.demand > granted.grant
    grown = np.maximum(granted.floor - tally.floor, 0)
    stopped = revoked(
        terms,
        in_flight([gateway.gauges for gateway in pool.gateways.values()], len(terms.names)),
        seen_now.demand,
        tally.grant,
        granted.grant,
        bool(grown.any()),
        action == REFUSE,
    )
    stopped &= ~is_revoked(tally.revoked_ms, at_ms)
    tally.revoked_ms[stopped] = at_ms + spec.reclaim.resume_ms
    verdict = Verdict(
        at_ms=at_ms,
        measures=seen_now,
        was=was,
        weight=weight,
        action=action,
        available=ceiling - pots,
        grants=granted,
        occupancies=occupancies,
        leased=leased,
        taken=np.where(short, np.maximum(tally.borrowed - granted.borrowed, 0), 0),
        grown=grown,
        revoked=stopped,
    )
    if verdict.taken.any() and verdict.grown.any():
        tally.lost_ms[verdict.taken > 0] = at_ms
        tally.gained_ms[verdict.grown > 0] = at_ms
    tally.debt = np.where(owed, paid, 0)
    tally.grant, tally.floor, tally.borrowed = granted.grant, granted.floor, granted.borrowed
    return verdict


def _smooth_level(before: int, now: int, gain: int, skipped: int) -> int:
    # The level of a skipped boundary is not known; the newest one stands for them.
    for _ in range(skipped + 1):
        before = (before * (ONE - gain) + now * gain) // ONE
    return before
