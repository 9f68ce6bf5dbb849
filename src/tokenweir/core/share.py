"""Weighted max-min sharing in whole numbers."""

import numpy as np

from tokenweir.core import ONE
from tokenweir.core.terms import Ints


def share(total: int, weights: Ints, caps: Ints, carry: Ints | None = None) -> Ints:
    """Divide `total` by weight; nobody gets more than its cap, what one leaves goes to the others.

    S_i = w_i * B / sum(w), repeated until nobody is over its cap (budget tutorial). Rounds down and
    gives the rest by largest remainder, ties by position; `carry`, in millionths of a unit, is what
    earlier roundings took from each, and is updated (A2). Shapes (n,); the sum of the result is
    min(total, sum(caps)). A weight of 0 counts as the smallest there is.
    """
    caps = np.maximum(caps, 0)
    if total <= 0:
        return np.zeros_like(caps)
    if int(caps.sum()) <= total:
        return caps.copy()
    weights = np.maximum(weights, 1)
    level = caps / weights  # up to which share of a weight each one goes
    order = level.argsort(kind="stable")
    cap, weight = caps[order], weights[order]
    # What is left, and who is left to share it, when everybody before has its cap.
    left = total - (cap.cumsum() - cap)
    among = weight[::-1].cumsum()[::-1]
    first = int((level[order] * among <= left).argmin())
    full = order[:first]
    exact = int(left[first]) * (weights / int(among[first]))
    exact[full] = caps[full]
    part = np.minimum(exact.astype(np.int64), caps)
    rest = total - int(part.sum())
    if rest == 0 and carry is None:
        return part
    lost = ((exact - part) * ONE).astype(np.int64)
    return _give_rest(part, rest, caps, lost, carry)


def _give_rest(part: Ints, rest: int, caps: Ints, lost: Ints, carry: Ints | None) -> Ints:
    if carry is not None:
        carry += lost
        lost = carry
    if rest < 0:  # a quotient was rounded up to the next whole number
        part[(-part).argsort(kind="stable")[:-rest]] -= 1
    while rest > 0:
        (open_,) = (part < caps).nonzero()
        chosen = open_[(-lost[open_]).argsort(kind="stable")[:rest]]
        part[chosen] += 1
        if carry is not None:
            carry[chosen] -= ONE
        rest -= len(chosen)
    return part


def split(amounts: Ints, keys: Ints) -> Ints:
    """Split each tenant's amount over gateways in proportion to `keys`; equally where all are 0.

    `amounts` has shape (tenants,), `keys` (gateways, tenants), the result as `keys`; each column
    adds up to its amount exactly.
    """
    if len(keys) == 0:
        return np.zeros_like(keys)
    upto = np.add.accumulate(keys)
    nobody = upto[-1] == 0
    if np.count_nonzero(amounts[nobody]):
        upto[:, nobody] = np.arange(1, len(keys) + 1)[:, None]
    edges = _edges(amounts, upto)
    # Beyond 2**53 an amount and its float differ.
    edges[-1] = amounts
    return _between(np.minimum(edges, amounts, out=edges))


def cut(amounts: Ints, upto: Ints) -> Ints:
    """As `split`, by running sums of keys, of amounts below 2**53; of 0 where all keys are 0."""
    return _between(_edges(amounts, upto))


def _edges(amounts: Ints, upto: Ints) -> Ints:
    """Up to where each part goes, rounded down."""
    exact = upto / np.maximum(upto[-1], 1)
    exact *= amounts
    edges: Ints = exact.astype(np.int64)
    return edges


def _between(edges: Ints) -> Ints:
    edges[1:] -= edges[:-1].copy()
    return edges


def split_whole(amounts: Ints, keys: Ints) -> Ints:
    """As `split`, for amounts of a few: the rest goes to the largest remainders, ties by order."""
    if len(keys) == 0:
        return np.zeros_like(keys)
    keys = np.where(keys.sum(axis=0) > 0, keys, 1)
    exact = amounts * (keys / keys.sum(axis=0))
    parts: Ints = exact.astype(np.int64)
    rest = amounts - parts.sum(axis=0)
    place = np.argsort(np.argsort(parts - exact, axis=0, kind="stable"), axis=0, kind="stable")
    whole: Ints = parts + (place < rest)
    return whole
