"""What a window of a quota will leave unspent, lent to others of the same cycle and zone."""

from dataclasses import dataclass

import numpy as np

from tokenweir.core.share import share
from tokenweir.core.terms import Ints


@dataclass(frozen=True, slots=True)
class Book:
    """The accounts of one cycle and zone; arrays of shape (accounts,), charged tokens."""

    limit: Ints
    spent: Ints
    committed: Ints  # that gateways may have spent
    lent: Ints  # so far: positive received, negative given
    rate: Ints  # smoothed use, milli-tokens/s
    wanted: Ints  # that it would spend soon if it could


def spare(book: Book, passed_ms: int, length_ms: int) -> Ints:
    """What each may lend now: what its window will leave if it goes on as it does.

    That is limit - spent - rate x the time that is left, of it the part of the window that has
    passed, since a window just begun says little; less what it has lent already, and never what
    gateways may still spend.
    """
    passed_ms = min(max(passed_ms, 0), length_ms)
    ahead = book.rate // 1000 * ((length_ms - passed_ms) // 1000)
    leaves = np.maximum(book.limit - book.spent - ahead, 0)
    given = np.maximum(-book.lent, 0)
    part = ((leaves + given) * (passed_ms / length_ms)).astype(np.int64) - given
    most = np.maximum(book.limit - book.committed, 0)
    found: Ints = np.minimum(np.maximum(part, 0), most)
    return found


def moved(book: Book, lends: Ints, borrows: Ints, passed_ms: int, length_ms: int) -> Ints:
    """What each receives, negative where it gives; adds up to 0.

    `lends` and `borrows` are masks (0 or 1): those that let others have what they leave, and those
    whose quota is spent and that want more. Both sides share in proportion.
    """
    offered = np.where(lends > 0, spare(book, passed_ms, length_ms), 0)
    short = np.where(borrows > 0, np.maximum(book.wanted, 0), 0)
    total = min(int(offered.sum()), int(short.sum()))
    if total == 0:
        return np.zeros_like(book.limit)
    return share(total, short, short) - share(total, offered, offered)
