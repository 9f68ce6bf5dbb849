"""The emergency brake, for what grants did not prevent (DESIGN, decision 3).

Grants add up to less than the capacity, so a pool in full use of them stays below the threshold.
Lost capacity, overrun estimates or a gateway that does not enforce can bring it above.

    closed ──total level at `break` for `rise` decisions──▶ open
    open ──cool-off over, level below break - margin──▶ half_open
    half_open ──calm for a probe time──▶ closed
    half_open ──level or errors too high for `rise` decisions──▶ open, with twice the cool-off
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tokenweir.core import ONE
from tokenweir.core.actions import FLOOR_ONLY, REFUSE
from tokenweir.core.share import share
from tokenweir.core.terms import Ints, Terms
from tokenweir.records.control import Breaker
from tokenweir.records.rows import LONG_AGO_MS
from tokenweir.records.spec import BreakerRefuses, BreakerTerms, TierTerms


@dataclass(frozen=True, slots=True)
class BreakerState:
    """The breaker, since when, and what decides how it goes on."""

    breaker: Breaker = "closed"
    since_ms: int = LONG_AGO_MS
    above: int = 0  # decisions in a row that speak for opening, up to `rise`
    cool_off_ms: int = 0  # of this opening, or closed: of the last; 0: nothing to double


@dataclass(frozen=True, slots=True)
class Pressure:
    """What the breaker looks at, in millionths."""

    total: int  # the smoothed level of all use, firm and lent
    errors: int  # failed requests of those that ended, smoothed


@dataclass(frozen=True, slots=True)
class Outcomes:
    """How requests end, smoothed: thousandths of a request a second."""

    ended: int = 0
    failed: int = 0


CLOSED = BreakerState()
NOTHING_ENDED = Outcomes()


def ended(
    before: Outcomes, requests: int, failed: int, interval_ms: int, gain: int, skipped: int
) -> Outcomes:
    """One decision more, and `skipped` ones in which nothing ended."""
    done, lost = (count * ONE // interval_ms * gain for count in (requests, failed))
    after = Outcomes(
        (before.ended * (ONE - gain) + done) // ONE, (before.failed * (ONE - gain) + lost) // ONE
    )
    for _ in range(skipped):
        after = Outcomes(after.ended * (ONE - gain) // ONE, after.failed * (ONE - gain) // ONE)
    return after


def failing(outcomes: Outcomes) -> int:
    """The part of requests that fail, in millionths; 0 while none end."""
    return min(outcomes.failed * ONE // max(outcomes.ended, 1), ONE)


def next_breaker(
    state: BreakerState, seen: Pressure, terms: BreakerTerms, tiers: TierTerms, at_ms: int
) -> BreakerState:
    """The breaker after one more decision at `at_ms`: at most one transition.

    It stays closed for a dwell at least, and half open for its cool-off and a dwell at least, so
    that tier circuit_break, which is the same state, changes once per dwell at most.
    """
    return _STEPS[state.breaker](state, seen, terms, tiers, at_ms)


def _closed(
    state: BreakerState, seen: Pressure, terms: BreakerTerms, tiers: TierTerms, at_ms: int
) -> BreakerState:
    above = _counted(state, seen.total >= tiers.circuit_break, tiers)
    closed_ms = at_ms - state.since_ms
    # What stayed closed for as long as its last cool-off begins anew.
    last_ms = 0 if closed_ms >= state.cool_off_ms else state.cool_off_ms
    if (above, last_ms) != (state.above, state.cool_off_ms):
        state = replace(state, above=above, cool_off_ms=last_ms)
    if above >= tiers.rise and closed_ms >= tiers.dwell_ms:
        return _opened(state, terms, at_ms)
    return state


def _open(
    state: BreakerState, seen: Pressure, terms: BreakerTerms, tiers: TierTerms, at_ms: int
) -> BreakerState:
    if at_ms - state.since_ms >= state.cool_off_ms and _is_low(seen, tiers):
        return replace(state, breaker="half_open", since_ms=at_ms, above=0)
    return state


def _half_open(
    state: BreakerState, seen: Pressure, terms: BreakerTerms, tiers: TierTerms, at_ms: int
) -> BreakerState:
    calm = _is_low(seen, tiers) and seen.errors <= terms.error_rate
    above = _counted(state, not calm, tiers)
    if above >= tiers.rise:
        return _opened(state, terms, at_ms)
    if calm and at_ms - state.since_ms >= max(state.cool_off_ms, tiers.dwell_ms):
        return replace(state, breaker="closed", since_ms=at_ms, above=0)
    return replace(state, above=above)


_Step = Callable[[BreakerState, Pressure, BreakerTerms, TierTerms, int], BreakerState]
_STEPS: Mapping[Breaker, _Step] = {"closed": _closed, "open": _open, "half_open": _half_open}


def _opened(state: BreakerState, terms: BreakerTerms, at_ms: int) -> BreakerState:
    """A relapse, from half open or soon after closing, doubles the cool-off."""
    longer = min(max(2 * state.cool_off_ms, terms.cool_off_ms), terms.longest_cool_off_ms)
    return BreakerState("open", at_ms, 0, longer)


def _counted(state: BreakerState, speaks_for_it: bool, tiers: TierTerms) -> int:
    return min(state.above + 1, tiers.rise) if speaks_for_it else 0


def _is_low(seen: Pressure, tiers: TierTerms) -> bool:
    return seen.total < tiers.circuit_break - tiers.margin


def narrowed(breaker: Breaker, refuses: BreakerRefuses, action: Ints) -> Ints:
    """The tenants' actions (places in `actions.ACTIONS`) with what the breaker adds to them.

    Not closed: nobody has more than its floor, or with `all` nobody has anything.
    """
    if breaker == "closed":
        return action
    return np.maximum(action, FLOOR_ONLY if refuses == "borrowers" else REFUSE)


def probe_rate(breaker: Breaker, terms: BreakerTerms, capacity: int, free: int) -> int:
    """Milli-tokens/s that may be probed with; `free` is what grants and pots leave."""
    if breaker != "half_open":
        return 0
    return max(min(capacity * terms.probe // ONE, free), 0)


def probes(rate: int, demand: Ints, grant: Ints, weight: Ints, terms: Terms, action: Ints) -> Ints:
    """What of the probe rate each tenant is leased: by weight, to those who want more.

    Gateways spend it from one bucket for all tenants, whose rate follows these leases. Classes that
    the tier refuses have none; `action` is the tier's alone. Shapes (tenants,).
    """
    open_ = (action < REFUSE) & ~terms.suspended
    most = terms.baseline + terms.borrow_cap
    return share(rate, weight, np.where(open_, np.minimum(demand, most) - grant, 0))
