"""What is kept for those who have a baseline (DESIGN, decision 5)."""

from typing import NamedTuple

import numpy as np

from tokenweir.core import ONE
from tokenweir.core.reclaim import Loans
from tokenweir.core.share import share
from tokenweir.core.terms import Ints, Terms, standing


class Floors(NamedTuple):
    """Milli-tokens/s; arrays of shape (tenants,)."""

    floor: Ints  # what each one has for sure until the next decision
    idle: Ints  # what is reserved and not asked for now
    lent: Ints  # of it, what may be lent; the rest waits for its owner
    kept: Ints  # what borrowers keep above their floors while elastic ones come back


def floors(
    available: int,
    demand: Ints,
    weight: Ints,
    terms: Terms,
    alpha: int,
    loans: Loans | None = None,
) -> Floors:
    """Dedicated: the baseline, always. Guaranteed and elastic: the baseline as far as they ask.

    No floor shrinks to serve another's burst. Where they do not fit, elastic floors are shared by
    weight; where the core's do not, guaranteed ones shrink in proportion, then dedicated ones.
    An elastic floor that comes back grows into what `loans` lets it take from borrowers.
    """
    stands = standing(terms)
    elastic = stands.elastic_floor
    dedicated = fit(available, stands.dedicated_floor)
    guaranteed = fit(available - int(dedicated.sum()), stands.guaranteed_floor)
    core = dedicated + np.minimum(guaranteed, demand)
    idle = dedicated + guaranteed - core
    lent = np.minimum(idle * alpha // ONE, terms.lend_cap)
    left = max(available - int(core.sum()) - int((idle - lent).sum()), 0)
    asked, kept = _returned(left, np.maximum(demand - core, 0), weight, elastic, terms, loans)
    # Elastic baselines may add up to more than there is: only what fits is reserved while idle.
    left -= int(asked.sum())
    spare = fit(left, np.maximum(elastic - demand, 0))
    waits = spare - np.minimum(spare * alpha // ONE, terms.lend_cap)
    # What borrowers keep cannot wait for other owners as well.
    waits = fit(left - int(kept.sum()), waits)
    return Floors(core + asked, idle + spare, lent + spare - waits, kept)


def _returned(
    left: int, demand: Ints, weight: Ints, elastic: Ints, terms: Terms, loans: Loans | None
) -> tuple[Ints, Ints]:
    """The elastic floors, and what borrowers keep: both fit into `left`.

    What a floor had already comes first, then what a reclaim must leave to borrowers, then growth.
    What is left to an owner itself becomes its floor.
    """
    wanted = np.minimum(elastic, demand)
    asked = share(left, weight, wanted)
    if loans is None or not (asked > loans.floor).any():
        return asked, np.zeros_like(asked)
    before = np.minimum(asked, loans.floor)
    unmet = np.minimum(np.maximum(demand - before, 0), terms.borrow_cap)
    kept = np.where(terms.suspended, 0, np.minimum(loans.kept(), unmet))
    kept = fit(left - int(before.sum()), kept)
    own = np.minimum(kept, asked - before)
    before, kept = before + own, kept - own
    rest = left - int(before.sum()) - int(kept.sum())
    return before + share(rest, weight, asked - before), kept


def fit(available: int, amounts: Ints) -> Ints:
    """The amounts, or where they do not fit the same part of each, rounded down."""
    total = int(amounts.sum())
    if total <= max(available, 0):
        return amounts
    return (amounts * (max(available, 0) / total)).astype(np.int64)
