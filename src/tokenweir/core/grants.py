"""What each tenant may spend until the next decision (DESIGN, decision 6; PROTOCOL L10)."""

from typing import NamedTuple

import numpy as np

from tokenweir.core import ONE
from tokenweir.core.actions import FLOOR_ONLY, LIMIT, NONE, REFUSE
from tokenweir.core.floors import Floors, floors
from tokenweir.core.reclaim import Loans
from tokenweir.core.share import share
from tokenweir.core.terms import UNLIMITED, Bools, Ints, Terms, standing
from tokenweir.records.spec import RANK, PoolSpec


class Grants(NamedTuple):
    """Milli-tokens/s; arrays of shape (tenants,). The sum of `grant` is at most `available`."""

    floor: Ints
    borrowed: Ints  # to meet demand above the floor
    grant: Ints  # floor, borrowed, and headroom that nobody asks for


def grants(
    available: int,
    demand: Ints,
    weight: Ints,
    terms: Terms,
    spec: PoolSpec,
    action: Ints,
    seen: Bools,
    carry: Ints,
    capacity: int,
    loans: Loans | None = None,
) -> Grants:
    """T_eff = T + α·T_idle (budget tutorial): floors first, then what is lent, then headroom.

    What nobody reserved is lent freely; of what is reserved and idle the part α, so that an owner
    who comes back always finds something. `seen` are the tenants that were there lately.
    """
    kept = floors(available, demand, weight, terms, spec.alpha, loans)
    unlent = kept.idle - kept.lent
    free = max(available - int(kept.floor.sum()) - int(unlent.sum()), 0)
    stands, is_held_back = standing(terms), bool(action.any())
    may_borrow = stands.open & (action < FLOOR_ONLY) if is_held_back else stands.open
    unmet = np.minimum(np.maximum(demand - kept.floor, 0), terms.borrow_cap) * may_borrow
    # An owner that was there lately holds what is kept for it; that of others waits for them.
    here = seen & (action == NONE) if is_held_back else seen
    held = unlent * here
    caps = _class_caps(spec, terms, kept, held, free, capacity)
    # What a reclaim must leave to borrowers is theirs, though their class may borrow less now.
    loan = np.minimum(kept.kept, unmet)
    more = _within(_left(caps, loan, terms), unmet - loan, weight, terms)
    borrowed = loan + share(free - int(loan.sum()), weight, more, carry)
    if is_held_back:
        borrowed = np.where(action == LIMIT, np.maximum(borrowed // 2, loan), borrowed)
    grant = kept.floor + borrowed + held
    room = np.maximum(stands.most - grant, 0) * (here & stands.open)
    rest = free - int(borrowed.sum())
    left = _left(caps, borrowed, terms)
    headroom = share(rest, weight, _within(left, np.minimum(room, rest), weight, terms))
    grant = grant + headroom
    if is_held_back:
        grant = np.where(action == REFUSE, 0, grant)
    return Grants(kept.floor, borrowed, grant)


def _class_caps(
    spec: PoolSpec, terms: Terms, kept: Floors, held: Ints, free: int, capacity: int
) -> dict[int, int]:
    """The most that each capped class may borrow: by its share of the pool, and by its own α."""
    caps = {}
    lent = int(kept.lent.sum())
    for rules in spec.classes:
        rank = RANK[rules.service_class]
        most = UNLIMITED
        if rules.share_cap is not None:
            most = capacity * rules.share_cap // ONE - _of(terms, rank, kept.floor + held)
        if rules.alpha is not None and rules.alpha < spec.alpha:
            own = int((kept.idle * rules.alpha // ONE).sum())
            most = min(most, free - lent + own)
        if most < UNLIMITED:
            caps[rank] = max(most, 0)
    return caps


def _left(caps: dict[int, int], taken: Ints, terms: Terms) -> dict[int, int]:
    return {rank: cap - _of(terms, rank, taken) for rank, cap in caps.items()}


def _within(caps: dict[int, int], wanted: Ints, weight: Ints, terms: Terms) -> Ints:
    for rank, cap in caps.items():
        inside = terms.rank == rank
        wanted = np.where(inside, share(cap, weight, np.where(inside, wanted, 0)), wanted)
    return wanted


def _of(terms: Terms, rank: int, amounts: Ints) -> int:
    return int(amounts[terms.rank == rank].sum())
