"""One decision of one pool: measure, tier, weights, floors, sharing, debt, leases."""

from dataclasses import dataclass, replace

import numpy as np

from tokenweir.core import ONE
from tokenweir.core.actions import REFUSE, actions_of
from tokenweir.core.alpha import tuned
from tokenweir.core.breaker import (
    BreakerState,
    Pressure,
    failing,
    narrowed,
    next_breaker,
    probe_rate,
    probes,
)
from tokenweir.core.grants import Grants, grants
from tokenweir.core.guard import Guarded
from tokenweir.core.leases import Leased, lease
from tokenweir.core.measure import Measures, measure
from tokenweir.core.occupancy import Occupancy, occupancy
from tokenweir.core.pool import Pool
from tokenweir.core.quota_step import Rationed, guard_quotas, ration_quotas
from tokenweir.core.rations import capped
from tokenweir.core.reclaim import loans
from tokenweir.core.revoke import in_flight, is_revoked, revoked
from tokenweir.core.smooth import debt, decay
from tokenweir.core.terms import Bools, Ints
from tokenweir.core.tier import next_tier, restarted
from tokenweir.core.tuning import limited, tune
from tokenweir.core.weights import weights
from tokenweir.records.control import Tier
from tokenweir.records.journal import AuditEntry
from tokenweir.records.spec import PoolSpec


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was decided, as figures; arrays of shape (tenants,)."""

    at_ms: int
    measures: Measures
    was: Tier
    breaker_was: BreakerState
    tuned: tuple[AuditEntry, ...]  # what the slow loop changed
    alpha: int  # of the pool, as it is tuned, millionths
    probe_rate: int  # milli-tokens/s that all gateways together may probe with
    cut: Ints  # borrowed capacity that the breaker took, milli-tokens/s
    weight: Ints
    action: Ints  # place in `actions.ACTIONS`
    available: int  # for grants, milli-tokens/s: what the ceiling leaves beside the pots
    grants: Grants
    occupancies: tuple[Occupancy | None, ...]  # sequences, MiB of the KV cache; None: no limit
    leased: Leased
    taken: Ints  # borrowed capacity that this decision took back from somebody who wants it
    grown: Ints  # floors that grew
    revoked: Bools  # whose running work this decision stopped
    rationed: Rationed  # what is left of quotas
    guarded: Guarded  # and how it is kept


def decide(pool: Pool, spec: PoolSpec, at_ms: int, skipped: int) -> Verdict:
    """Decide for the boundary `at_ms`; `skipped` boundaries before it had no message (T2)."""
    seen_now = measure(pool, spec, at_ms, skipped)
    pool.level = _smooth_level(pool.level, seen_now.level_now, spec.ewma, skipped)
    pool.total = _smooth_level(pool.total, seen_now.total, spec.ewma, skipped)
    was, breaker_was = tier_of(pool), pool.breaker
    _next_tier(pool, spec, at_ms)
    changes = tune(pool, spec, at_ms)
    spec, tally = tuned(spec, pool.tuning), pool.tally
    terms = limited(pool.terms, tally.limit)
    weight = weights(terms, spec.weights, tally.burst, tally.debt)
    by_tier = actions_of(tuple(spec.classes), tier_of(pool), terms.rank)
    action = narrowed(pool.breaker.breaker, spec.breaker.refuses, by_tier)
    capacity = pool.capacity.tokens_per_s
    ceiling = capacity * spec.ceiling // ONE
    pots = capacity * spec.pots // ONE
    rationed = ration_quotas(pool, spec, at_ms, skipped)
    wanted = np.minimum(seen_now.demand, rationed.cap)
    is_stopped = is_revoked(tally.revoked_ms, at_ms)
    held_back = np.where(is_stopped, REFUSE, action)
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
        wanted,
        weight,
        capped(terms, rationed.cap),
        spec,
        held_back,
        present,
        tally.carry,
        capacity,
        lent,
    )
    free = ceiling - pots - int(granted.grant.sum())
    probe = probe_rate(pool.breaker.breaker, spec.breaker, capacity, free)
    probing = np.where(is_stopped, REFUSE, by_tier)
    granted = _with_probes(granted, probes(probe, wanted, granted.grant, weight, terms, probing))
    served = np.minimum(granted.grant, wanted)
    owed = terms.of_class(2, 2)
    paid = debt(tally.debt, wanted, served, terms.baseline, spec.debt_gain)
    paid = decay(paid, spec.debt_gain, skipped)
    placed = probing if probe else held_back  # probes need places to run in
    occupancies = tuple(
        occupancy(pool, spec, kind, wanted, weight, placed, present, spec.ceiling)
        for kind, wanted in enumerate((seen_now.sequences, seen_now.kv))
    )
    leased = lease(pool, spec, granted.grant, weight, at_ms, pots, ceiling, occupancies)
    guarded = guard_quotas(pool, spec, at_ms, rationed, leased, present)
    short = wanted > granted.grant
    is_closed = pool.breaker.breaker == "closed"
    less = np.maximum(tally.borrowed - granted.borrowed, 0)
    grown = np.maximum(granted.floor - tally.floor, 0)
    stopped = revoked(
        terms,
        in_flight([gateway.gauges for gateway in pool.gateways.values()], len(terms.names)),
        seen_now.demand,
        tally.grant,
        granted.grant,
        bool(grown.any()),
        by_tier == REFUSE,
    )
    stopped &= ~is_stopped
    tally.revoked_ms[stopped] = at_ms + spec.reclaim.resume_ms
    verdict = Verdict(
        at_ms=at_ms,
        measures=seen_now,
        was=was,
        breaker_was=breaker_was,
        tuned=changes,
        alpha=spec.alpha,
        probe_rate=probe,
        cut=np.zeros_like(less) if is_closed else less,
        weight=weight,
        action=action,
        available=ceiling - pots,
        grants=granted,
        occupancies=occupancies,
        leased=leased,
        taken=np.where(short & is_closed, less, 0),
        grown=grown,
        revoked=stopped,
        rationed=rationed,
        guarded=guarded,
    )
    if verdict.taken.any() and verdict.grown.any():
        tally.lost_ms[verdict.taken > 0] = at_ms
        tally.gained_ms[verdict.grown > 0] = at_ms
    tally.debt = np.where(owed, paid, 0)
    tally.grant, tally.floor, tally.borrowed = granted.grant, granted.floor, granted.borrowed
    return verdict


def tier_of(pool: Pool) -> Tier:
    """The tier that is published: while the breaker is not closed, circuit_break."""
    return pool.tier.tier if pool.breaker.breaker == "closed" else "circuit_break"


def _next_tier(pool: Pool, spec: PoolSpec, at_ms: int) -> None:
    was = pool.breaker.breaker
    pool.tier = next_tier(pool.tier, pool.level, spec.tiers, at_ms)
    seen = Pressure(pool.total, failing(pool.outcomes))
    pool.breaker = next_breaker(pool.breaker, seen, spec.breaker, spec.tiers, at_ms)
    if was != "closed" and pool.breaker.breaker == "closed":
        pool.tier = restarted(pool.tier, at_ms)


def _with_probes(granted: Grants, leased: Ints) -> Grants:
    grant, borrowed = granted.grant + leased, granted.borrowed + leased
    return replace(granted, grant=grant, borrowed=borrowed)


def _smooth_level(before: int, now: int, gain: int, skipped: int) -> int:
    """Rounds towards `now`, so that a lasting level is reached."""
    # The level of a skipped boundary is not known; the newest one stands for them.
    for _ in range(skipped + 1):
        step = (now - before) * gain
        before += -(-step // ONE) if step > 0 else step // ONE
    return before
