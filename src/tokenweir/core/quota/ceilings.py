"""How much each gateway may have spent of a quota in one window (PROTOCOL Q1)."""

import numpy as np

from tokenweir.core.share import split
from tokenweir.core.terms import Bools, Ints

# Everybody has one part in so many ahead of its use, at least, so that a load that comes anew
# meets something; what idle gateways hold so is lost to the others.
STARTERS_TOGETHER = 25
FEWEST = 4  # gateways that starters are cut for


def starter(limit: Ints, gateways: int) -> Ints:
    """What each gateway may spend ahead of its use, however little it asks for."""
    return limit // (STARTERS_TOGETHER * max(gateways, FEWEST))


def raised(given: Ints, spent: Ints, ahead: Ints, live: Bools, free: Ints, least: Ints) -> Ints:
    """The ceilings after a decision; shapes (gateways, accounts), `live` is (gateways, 1).

    They only rise, and only of gateways that are live: to what each has spent and will soon ask for
    (`ahead`), `least` (accounts,) at any rate. Together they grow by at most `free` (accounts,);
    where that is short, in proportion to what each lacks.
    """
    target = spent + np.maximum(ahead, least)
    lacks = np.where(live, np.maximum(target - given, 0), 0)
    growth = np.minimum(lacks.sum(axis=0), np.maximum(free, 0))
    return given + np.minimum(split(growth, lacks), lacks)
