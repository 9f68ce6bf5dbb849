"""Fold what reports and the other agent say into quotas (PROTOCOL T7, Q2)."""

from collections.abc import Sequence

import numpy as np

from tokenweir.core.quota.quotas import (
    AFTER,
    ASKED,
    BEFORE,
    CEILING,
    CEILING_AFTER,
    HELD,
    NOW,
    SEEN,
    SINCE,
    UNMETERED,
    Group,
    Quotas,
    open_for,
    share_of,
)
from tokenweir.core.terms import Ints


def count(
    quotas: Quotas,
    gateway: str,
    tenants: Ints,
    users: Sequence[str],
    event_ms: Ints,
    charged: Ints,
    asked: Ints,
    held: Ints,
    clock_ms: int,
    heard_ms: int,
) -> None:
    """Charge rows of a report to the windows of their event times; shapes (rows,) (T7).

    `asked` is what a row's tenant and user wanted just now, `held` what their running requests were
    charged ahead. What is older than the window before touches no quota. `heard_ms` is the decision
    that the gateway obeyed when it began to spend so.
    """
    share = share_of(quotas, gateway)
    rows, places = _touched(quotas, tenants, users)
    if not len(rows):
        return
    edges = np.array([_edges(group) for group in quotas.groups], dtype=np.int64)
    slot = (event_ms[rows, None] >= edges[quotas.accounts.group[places]]).sum(axis=1) - 1
    fits = (slot >= BEFORE) & (slot <= AFTER)
    np.add.at(share.figures, (slot[fits], places[fits]), charged[rows][fits])
    since = quotas.columns[SINCE, places]
    unmetered = (slot == NOW) & ((since == 0) | (since > heard_ms))
    np.add.at(share.figures[UNMETERED], places[unmetered], charged[rows][unmetered])
    np.add.at(share.figures[ASKED], places, asked[rows])
    np.add.at(share.figures[HELD], places, held[rows])
    quotas.columns[SEEN, places] = clock_ms


def give(quotas: Quotas, tenant: int, user: str, window_id: str, tokens: int) -> None:
    """What this pool may spend of a quota across pools; it only rises within a window."""
    accounts, cycle = quotas.accounts, window_id.partition("/")[0]
    whole = accounts.whole[tenant]
    for place in accounts.users.get((tenant, user), ()) if user else whole[whole >= 0].tolist():
        if accounts.keys[place][2] == cycle and accounts.across[place]:
            windows = quotas.windows(place)
            row = {windows.now.id: CEILING, windows.after.id: CEILING_AFTER}.get(window_id)
            if row is not None:
                quotas.columns[row, place] = max(int(quotas.columns[row, place]), tokens)


def _edges(group: Group) -> tuple[int, int, int, int]:
    return group.before.starts_ms, group.now.starts_ms, group.now.ends_ms, group.after.ends_ms


def _touched(quotas: Quotas, tenants: Ints, users: Sequence[str]) -> tuple[Ints, Ints]:
    """Pairs of a row and an account that it is charged to."""
    accounts = quotas.accounts
    whole = accounts.whole[tenants]
    rows, cycles = np.nonzero(whole >= 0)
    places = whole[rows, cycles]
    if not (accounts.everybody or accounts.users):
        return rows, places
    who = [*zip(tenants.tolist(), users, strict=True)]
    open_for(quotas, who)
    pairs = [(row, place) for row, user in enumerate(who) for place in accounts.users.get(user, ())]
    if not pairs:
        return rows, places
    more = np.array(pairs, dtype=np.int64)
    return np.concatenate([rows, more[:, 0]]), np.concatenate([places, more[:, 1]])
