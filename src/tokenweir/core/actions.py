"""What a tier does to the classes, lowest first (DESIGN, decision 2)."""

import numpy as np

from tokenweir.core.terms import Ints
from tokenweir.records.control import Tier
from tokenweir.records.spec import CLASSES, Action, ClassTerms, ServiceClass

# In the order of severity; `limit` halves what a tenant borrows.
ACTIONS: tuple[Action, ...] = ("none", "limit", "floor_only", "refuse")
NONE, LIMIT, FLOOR_ONLY, REFUSE = range(4)


def action_of(terms: ClassTerms, tier: Tier) -> Action:
    """What holds for a class while the pool is in `tier`."""
    match tier:
        case "normal":
            return "none"
        case "soft_degrade":
            return terms.soft_action
        case _:
            return terms.hard_action


def actions_of(classes: tuple[ClassTerms, ...], tier: Tier, rank: Ints) -> Ints:
    """The action of each tenant, as its place in `ACTIONS`; shape (tenants,)."""
    by_rank = [ACTIONS.index(action_of(terms, tier)) for terms in classes]
    return np.array(by_rank, dtype=np.int64)[rank]


def priority_threshold(classes: tuple[ClassTerms, ...], tier: Tier) -> ServiceClass:
    """The lowest class that is not refused; classes below it are."""
    for terms in classes:
        if action_of(terms, tier) != "refuse":
            return terms.service_class
    return CLASSES[-1]
