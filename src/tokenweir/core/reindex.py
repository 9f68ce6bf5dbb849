"""Carry a pool's arrays over to a new list of tenants."""

import numpy as np

from tokenweir.core.pool import Pool
from tokenweir.core.tally import TALLIES, Tally
from tokenweir.core.terms import Ints, Terms
from tokenweir.core.window import Window, new_window

# These cannot be added up: what a tenant that has left had is dropped. All else is added to the
# unknown's.
RATIOS = frozenset(
    {"burst", "debt", "carry", "wait", "lost_ms", "gained_ms", "revoked_ms"}
    | {"carry_sequences", "carry_kv"}
    | {"limit", "limit_was", "limit_ms", "limit_asked", "raised_at", "lowered_at"}
)


def reindex(pool: Pool, terms: Terms, window_s: int, grace_s: int) -> None:
    """Put the pool's arrays into the order of `terms`; tenants that are gone count as unknown.

    What gateways hold for such a tenant stays given until they confirm that they dropped it (L2).
    """
    place = terms.find(pool.terms.names)
    count = len(terms.names)

    def move(array: Ints) -> Ints:
        moved = np.zeros((count, *array.shape[:-1]), dtype=np.int64)
        np.add.at(moved, place, array.T)
        return np.ascontiguousarray(moved.T)

    def move_ratio(array: Ints) -> Ints:
        moved = np.zeros(count, dtype=np.int64)
        stay = [n for n, name in enumerate(pool.terms.names) if name in terms.index]
        moved[place[stay]] = array[stay]
        return moved

    def move_issued(array: Ints) -> Ints:
        return np.concatenate((move(array[:, :-1]), array[:, -1:]), axis=1)  # the pot stays

    pool.totals = np.ascontiguousarray(move(pool.totals.T).T)
    pool.tally = Tally(
        *((move_ratio if name in RATIOS else move)(getattr(pool.tally, name)) for name in TALLIES)
    )
    pool.window = _move_window(pool.window, move(pool.window.tokens), window_s, grace_s)
    for gateway in pool.gateways.values():
        gateway.tenants = count
        gateway.issued = [
            issue._replace(leased=move_issued(issue.leased), occupied=move_issued(issue.occupied))
            for issue in gateway.issued
        ]
        gateway.figures = move(gateway.figures)
    pool.terms = terms


def _move_window(old: Window, tokens: Ints, window_s: int, grace_s: int) -> Window:
    new = new_window(tokens.shape[1], window_s, grace_s)
    new.newest = old.newest
    before, after = old.flows.shape[1], new.flows.shape[1]
    for second in range(max(0, old.newest - min(before, after) + 1), old.newest + 1):
        new.tokens[second % after] = tokens[second % before]
        new.flows[:, second % after] = old.flows[:, second % before]
    return new
