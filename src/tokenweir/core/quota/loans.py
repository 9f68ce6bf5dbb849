"""Move what quotas will leave unspent to those that are spent, where the spec allows it."""

from dataclasses import dataclass, replace

import numpy as np

from tokenweir.core.pool import Pool
from tokenweir.core.quota.exposure import exposure
from tokenweir.core.quota.lending import Book, moved
from tokenweir.core.quota.quotas import LENT, Group
from tokenweir.core.quota.rations import MICRO, MOST_RATE, Rations, rate_of
from tokenweir.core.terms import Ints
from tokenweir.records.spec import PoolSpec


@dataclass(frozen=True, slots=True)
class Loan:
    """What was moved in one cycle and zone: who lent and who received, and how much."""

    group: Group
    lenders: tuple[str, ...]
    borrowers: tuple[str, ...]
    tokens: int
    before: int  # the borrowers' limits together


def lend(
    pool: Pool, spec: PoolSpec, at_ms: int, rations: Rations
) -> tuple[Rations, tuple[Loan, ...]]:
    """The rations after lending, and what was lent: the sum of all limits stays as it is."""
    accounts = pool.quotas.accounts
    whole = accounts.of_tenants
    whole = whole[~accounts.across[whole]]
    if not accounts.lends[whole].any():
        return rations, ()
    committed = exposure(pool, spec).committed
    limit, loans = rations.limit.copy(), []
    stuck = _stuck(pool, rations, whole)
    for place, group in enumerate(pool.quotas.groups):
        some = whole[accounts.group[whole] == place]
        change = _moved(pool, spec, at_ms, rations, committed, some, group, stuck)
        if change.any():
            loans.append(_loan(pool, group, some, change, limit))
            limit[some] += change
            pool.quotas.columns[LENT, some] += change
    left = np.maximum(limit - rations.spent, 0)
    return replace(rations, limit=limit, left=left), tuple(loans)


def _moved(
    pool: Pool,
    spec: PoolSpec,
    at_ms: int,
    rations: Rations,
    committed: Ints,
    some: Ints,
    group: Group,
    stuck: Ints,
) -> Ints:
    quotas = pool.quotas
    asked = sum(
        (rate_of(share, some, spec.interval_ms) for share in quotas.shares.values()),
        np.zeros(len(some), dtype=np.int64),
    )
    tenant = quotas.accounts.tenant[some]
    soon = np.minimum(asked, MOST_RATE) * spec.lease_ms // MICRO
    book = Book(
        limit=rations.limit[some],
        spent=rations.spent[some],
        committed=committed[some],
        lent=quotas.columns[LENT, some],
        rate=np.maximum(pool.tally.rate[tenant], 0),
        wanted=soon - rations.left[some],
    )
    spent = (book.committed >= book.limit) & (2 * rations.left[some] <= soon) & (asked > 0)
    lends = quotas.accounts.lends[some] & ~spent
    # Who lacks more than this quota could not use it.
    spent &= stuck[tenant] <= (rations.left[some] <= 0)
    passed_ms, length_ms = at_ms - group.now.starts_ms, group.now.ends_ms - group.now.starts_ms
    return moved(book, lends.astype(np.int64), spent.astype(np.int64), passed_ms, length_ms)


def _stuck(pool: Pool, rations: Rations, whole: Ints) -> Ints:
    """How many of its quotas each tenant has spent; shape (tenants,)."""
    spent = whole[rations.left[whole] <= 0]
    return np.bincount(pool.quotas.accounts.tenant[spent], minlength=len(pool.terms.names))


def _loan(pool: Pool, group: Group, some: Ints, change: Ints, limit: Ints) -> Loan:
    keys = pool.quotas.accounts.keys
    gives, gets = some[change < 0], some[change > 0]
    return Loan(
        group,
        tuple(keys[place][0] for place in gives.tolist()),
        tuple(keys[place][0] for place in gets.tolist()),
        int(change[change > 0].sum()),
        int(limit[gets].sum()),
    )
