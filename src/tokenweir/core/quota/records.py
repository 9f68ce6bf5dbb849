"""What is published of quotas: ceilings for gateways, and figures for the journal."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tokenweir.core.pool import Pool
from tokenweir.core.quota.accounts import EVERYBODY
from tokenweir.core.quota.guard import Guarded
from tokenweir.core.quota.quotas import (
    AFTER,
    CEILING,
    CEILING_AFTER,
    GIVEN,
    NOW,
    SPENT,
    Quotas,
)
from tokenweir.core.quota.rations import Rations, soon
from tokenweir.core.terms import Bools, Ints
from tokenweir.records.journal import QuotaFigures
from tokenweir.records.spec import PoolSpec
from tokenweir.records.usage import PoolSpend


class Ceilings(NamedTuple):
    """The ceilings of one lease record, in columns."""

    tenant: Sequence[str]
    user: Sequence[str]
    window_id: Sequence[str]
    starts_ms: Sequence[int]
    ends_ms: Sequence[int]
    tokens: Sequence[int]


def ceilings_of(quotas: Quotas, guarded: Guarded, gateway: str, places: Ints) -> Ceilings:
    """The gateway's ceilings of these accounts, the next window's within a lease life of it."""
    if not len(places):
        return Ceilings([], [], [], [], [], [])
    given = quotas.shares[gateway].figures[GIVEN]
    places = places[~_as_everybody(quotas, given)[places]]
    now, after = given[NOW, places].tolist(), given[AFTER, places].tolist()
    rows = []
    for row, place in enumerate(places.tolist()):
        tenant, user, _ = quotas.accounts.keys[place]
        windows = quotas.windows(place)
        rows.append((tenant, user, *windows.now, now[row]))
        if guarded.ahead[place]:
            rows.append((tenant, user, *windows.after, after[row]))
    columns = [[*column] for column in zip(*rows, strict=True)] or [[], [], [], [], [], []]
    return Ceilings(*columns)


def _as_everybody(quotas: Quotas, given: Ints) -> Bools:
    """Users who have here what everybody has, of all their quotas: they need no ceilings.

    The accounts of a user met follow each other, one for each of everybody's.
    """
    accounts = quotas.accounts
    same: Bools = np.asarray((given[NOW:] == given[NOW:, accounts.model]).all(axis=0))
    same[: accounts.named] = False
    met = np.arange(accounts.named, len(same))
    begins = np.append(True, np.diff(accounts.model[met]) <= 0)
    begins |= np.append(True, np.diff(accounts.tenant[met]) != 0)
    first = met[begins[: len(met)]]
    if len(first):
        alike = np.logical_and.reduceat(same, first)
        sizes = np.diff(np.append(first, len(same)))
        same[accounts.named :] = np.repeat(alike, sizes)
    return same


def quota_figures(quotas: Quotas, guarded: Guarded, rations: Rations) -> QuotaFigures:
    """The windows in use: those that gateways have ceilings for."""
    shown = guarded.shown
    if not len(shown):
        return QuotaFigures()
    keys = [quotas.accounts.keys[place] for place in shown.tolist()]
    return QuotaFigures(
        tenant=[tenant for tenant, _, _ in keys],
        user=[user for _, user, _ in keys],
        window_id=[quotas.windows(place).now.id for place in shown.tolist()],
        tokens=rations.limit[shown].tolist(),
        spent=rations.spent[shown].tolist(),
        given=guarded.given[shown].tolist(),
    )


def spends(
    pool: Pool, spec: PoolSpec, guarded: Guarded, rations: Rations, at_ms: int
) -> tuple[PoolSpend, ...]:
    """What is spent here of quotas across pools, where more could be used than may be (Q2)."""
    accounts = pool.quotas.accounts
    places = [place for place in guarded.shown.tolist() if accounts.across[place]]
    found: list[PoolSpend] = []
    for place in places:
        if accounts.keys[place][1] == EVERYBODY:  # a user asks for itself once it is seen
            continue
        # Twice what its gateways need: the way to the other agent and back is one more.
        some = np.array([place], dtype=np.int64)
        wanted = 2 * sum(int(soon(share, some, spec)[0]) for share in pool.quotas.shares.values())
        after = sum(
            int(share.figures[SPENT][AFTER, place]) for share in pool.quotas.shares.values()
        )
        spent = (int(rations.spent[place]), after)
        found += _lacking(pool, guarded, place, wanted, spent, at_ms)
    return tuple(found)


def _lacking(
    pool: Pool, guarded: Guarded, place: int, wanted: int, spent: tuple[int, int], at_ms: int
) -> Iterator[PoolSpend]:
    tenant, user, _ = pool.quotas.accounts.keys[place]
    windows = pool.quotas.windows(place)
    rows = [(windows.now, CEILING, spent[0])]
    if guarded.ahead[place]:
        rows.append((windows.after, CEILING_AFTER, spent[1]))
    for window, row, used in rows:
        ceiling = int(pool.quotas.columns[row, place])
        if wanted > 0 and used + wanted > ceiling:
            limit = int(pool.quotas.accounts.tokens[place])
            yield PoolSpend(pool.name, tenant, user, *window, limit, used, wanted, ceiling, at_ms)
