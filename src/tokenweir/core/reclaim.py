"""How fast owners get back what others borrowed (DESIGN, decision 7; budget tutorial).

What is free comes first, then what spot and preemptible have, then of each other borrower's
remainder at most the part β a decision (R_max = β·T_low). Floors of the core wait for none of this.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tokenweir.core import ONE
from tokenweir.core.actions import FLOOR_ONLY
from tokenweir.core.tally import Tally
from tokenweir.core.terms import Ints, Terms, standing
from tokenweir.records.spec import ReclaimTerms


@dataclass(frozen=True, slots=True)
class Loans:
    """What the last decision left; arrays of shape (tenants,), rates in milli-tokens/s."""

    floor: Ints
    kept: Callable[[], Ints]  # what a reclaim must leave each borrower: few decisions ask for it


def loans(
    tally: Tally, terms: Terms, action: Ints, reclaim: ReclaimTerms, before_ms: int, at_ms: int
) -> Loans:
    """What must be left to whom at `at_ms`; the last decision was at `before_ms`.

    Spot and preemptible keep nothing, nor do those who may not borrow any more. A borrower rests
    for the cool-down after a reclaim took from it, unless the last decision took already and goes
    on, and after it gained from one itself: so two tenants cannot take from each other in turn.
    """

    def kept() -> Ints:
        goes_on = (tally.lost_ms == before_ms) & (before_ms > 0)
        rests = (at_ms - tally.lost_ms < reclaim.cool_down_ms) & ~goes_on
        rests |= at_ms - tally.gained_ms < reclaim.cool_down_ms
        remainder = tally.borrowed - tally.borrowed * reclaim.beta // ONE
        keeps = standing(terms).firm & (action < FLOOR_ONLY)
        return np.where(rests, tally.borrowed, remainder) * keeps

    return Loans(tally.floor, kept)
