"""One decision of one pool: measure, tier, weights, floors, sharing, debt, leases."""

from typing import NamedTuple

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
from tokenweir.core.leases import Leased, lease
from tokenweir.core.measure import Measures, measure
from tokenweir.core.occupancy import Occupancy, occupancy
from tokenweir.core.pool import Pool
from tokenweir.core.quota.guard import Guarded
from tokenweir.core.quota.rations import capped
from tokenweir.core.quota.step import Rationed, guard_quotas, ration_quotas
from tokenweir.core.reclaim import loans
from tokenweir.core.revoke import in_flight, is_revoked, revoked
from tokenweir.core.smooth import debt, decay
from tokenweir.core.terms import Bools, Ints, Terms, standing
from tokenweir.core.tier import next_tier, restarted
from tokenweir.core.tuning import limited, tune
from tokenweir.core.weights import weights
from tokenweir.records.control import Tier
from tokenweir.records.journal import AuditEntry
from tokenweir.records.spec import PoolSpec


class Verdict(NamedTuple):
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


class Situation(NamedTuple):
    """What a decision starts from; arrays of shape (tenants,)."""

    measures: Measures
    was: Tier
    breaker_was: BreakerState
    tuned: tuple[AuditEntry, ...]
    spec: PoolSpec  # as it is tuned
    terms: Terms  # as they are tuned
    weight: Ints
    by_tier: Ints  # what the tier does to each
    action: Ints  # and the breaker
    stopped: Bools  # whose work stands revoked
    present: Bools  # who was there lately
    rationed: Rationed
    wanted: Ints  # the demand, as far as quotas allow it

    @property
    def held_back(self) -> Ints:
        """What is done to each, those included whose work stands revoked."""
        return np.where(self.stopped, REFUSE, self.action) if self.stopped.any() else self.action

    @property
    def probing(self) -> Ints:
        """The same for the probes of a breaker that is half open."""
        return np.where(self.stopped, REFUSE, self.by_tier)


class Budget(NamedTuple):
    """The rates that a decision may grant, milli-tokens/s."""

    capacity: int
    ceiling: int
    pots: int

    @property
    def available(self) -> int:
        """What the ceiling leaves beside the pots."""
        return self.ceiling - self.pots

    @property
    def free(self) -> int:
        """What is never granted."""
        return self.capacity - self.ceiling


def decide(pool: Pool, spec: PoolSpec, at_ms: int, skipped: int) -> Verdict:
    """Decide for the boundary `at_ms`; `skipped` boundaries before it had no message (T2)."""
    now = _situation(pool, spec, at_ms, skipped)
    capacity = pool.capacity.tokens_per_s
    budget = Budget(capacity, capacity * spec.ceiling // ONE, capacity * spec.pots // ONE)
    granted, probe = _granted(pool, now, budget, at_ms)
    places = _places(pool, now, probe)
    leased = lease(
        pool, now.spec, granted.grant, now.weight, at_ms, budget.pots, budget.ceiling, places
    )
    guarded = guard_quotas(pool, now.spec, at_ms, now.rationed, leased, now.present)
    is_closed = pool.breaker.breaker == "closed"
    less = np.maximum(pool.tally.borrowed - granted.borrowed, 0)
    grown = np.maximum(granted.floor - pool.tally.floor, 0)
    lost = np.maximum(less - grown, 0)  # what became its own floor is not lost
    verdict = Verdict(
        at_ms=at_ms,
        measures=now.measures,
        was=now.was,
        breaker_was=now.breaker_was,
        tuned=now.tuned,
        alpha=now.spec.alpha,
        probe_rate=probe,
        cut=np.zeros_like(less) if is_closed else less,
        weight=now.weight,
        action=now.action,
        available=budget.available,
        grants=granted,
        occupancies=places,
        leased=leased,
        taken=lost * ((now.wanted > granted.grant) & is_closed),
        grown=grown,
        revoked=_stopped(pool, now, granted, int(grown.sum()) > budget.free),
        rationed=now.rationed,
        guarded=guarded,
    )
    _remember(pool, now, verdict, skipped)
    return verdict


def _situation(pool: Pool, spec: PoolSpec, at_ms: int, skipped: int) -> Situation:
    """Close the interval, and find tier, breaker, tuning and quotas."""
    seen = measure(pool, spec, at_ms, skipped)
    pool.level = _smooth_level(pool.level, seen.level_now, spec.ewma, skipped)
    pool.total = _reached(pool.total, seen.total, spec.ewma, skipped)
    was, breaker_was = tier_of(pool), pool.breaker
    _next_tier(pool, spec, at_ms)
    changes = tune(pool, spec, at_ms)
    spec = tuned(spec, pool.tuning)
    terms = limited(pool.terms, pool.tally.limit)
    by_tier = actions_of(tuple(spec.classes), tier_of(pool), terms.rank)
    rationed = ration_quotas(pool, spec, at_ms, skipped)
    return Situation(
        measures=seen,
        was=was,
        breaker_was=breaker_was,
        tuned=changes,
        spec=spec,
        terms=terms,
        weight=weights(terms, spec.weights, pool.tally.burst, pool.tally.debt),
        by_tier=by_tier,
        action=narrowed(pool.breaker.breaker, spec.breaker.refuses, by_tier),
        stopped=is_revoked(pool.tally.revoked_ms, at_ms),
        present=(seen.demand > 0) | (seen.used > 0),
        rationed=rationed,
        wanted=np.minimum(seen.demand, rationed.cap),
    )


def _granted(pool: Pool, now: Situation, budget: Budget, at_ms: int) -> tuple[Grants, int]:
    """The grants, probes included, and the rate of all probes together."""
    granted = grants(
        budget.available,
        now.wanted,
        now.weight,
        capped(now.terms, now.rationed.cap),
        now.spec,
        now.held_back,
        now.present,
        pool.tally.carry,
        budget.capacity,
        loans(pool.tally, now.terms, now.held_back, now.spec.reclaim, pool.boundary_ms, at_ms),
    )
    if pool.breaker.breaker == "closed":
        return granted, 0
    free = budget.available - int(granted.grant.sum())
    probe = probe_rate(pool.breaker.breaker, now.spec.breaker, budget.capacity, free)
    more = probes(probe, now.wanted, granted.grant, now.weight, now.terms, now.probing)
    grant, borrowed = granted.grant + more, granted.borrowed + more
    return granted._replace(grant=grant, borrowed=borrowed), probe


def _places(pool: Pool, now: Situation, probe: int) -> tuple[Occupancy | None, ...]:
    """What may be occupied of sequences and of the KV cache; probes need places to run in."""
    action = now.probing if probe else now.held_back
    return tuple(
        occupancy(pool, now.spec, kind, wanted, now.weight, action, now.present, now.spec.ceiling)
        for kind, wanted in enumerate((now.measures.sequences, now.measures.kv))
    )


def _stopped(pool: Pool, now: Situation, granted: Grants, pressed: bool) -> Bools:
    """Whose running work this decision stops."""
    if not standing(now.terms).preemptible:
        return np.zeros(len(now.stopped), dtype=np.bool_)
    gauges = [gateway.gauges for gateway in pool.gateways.values()]
    stopped = revoked(
        now.terms,
        in_flight(gauges, len(now.terms.names)),
        pool.tally.rate,
        granted.grant,
        pressed,
        now.by_tier == REFUSE,
    )
    return stopped & ~now.stopped


def _remember(pool: Pool, now: Situation, verdict: Verdict, skipped: int) -> None:
    """Keep what the next decision needs of this one."""
    tally, granted = pool.tally, verdict.grants
    if verdict.revoked.any():
        tally.revoked_ms[verdict.revoked] = verdict.at_ms + now.spec.reclaim.resume_ms
    if verdict.taken.any() and verdict.grown.any():
        tally.lost_ms[verdict.taken > 0] = verdict.at_ms
        tally.gained_ms[verdict.grown > 0] = verdict.at_ms
    served = np.minimum(granted.grant, now.wanted)
    gain = now.spec.debt_gain
    owed = decay(debt(tally.debt, now.wanted, served, now.terms.baseline, gain), gain, skipped)
    tally.debt = owed * standing(now.terms).elastic
    tally.grant, tally.floor, tally.borrowed = granted.grant, granted.floor, granted.borrowed


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


def _smooth_level(before: int, now: int, gain: int, skipped: int) -> int:
    """Rounds down: grants of 90 % in full use do not come to a threshold of 90 %, and flutter."""
    # The level of a skipped boundary is not known; the newest one stands for them.
    for _ in range(skipped + 1):
        before = (before * (ONE - gain) + now * gain) // ONE
    return before


def _reached(before: int, now: int, gain: int, skipped: int) -> int:
    """The same, rounded towards `now`: use that lasts at the whole budget comes to one."""
    if now > before:
        return -_smooth_level(-before, -now, gain, skipped)
    return _smooth_level(before, now, gain, skipped)
