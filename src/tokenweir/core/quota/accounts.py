"""Who has quotas: the accounts that a spec opens, and those of users that were met since.

An account is one quota: of a tenant (its user is empty), of one user, or of everybody (`*`): what
each user may spend whose own account is not open yet. All arrays have the shape (accounts,).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np

from tokenweir.core.terms import Bools, Ints, Terms
from tokenweir.records.spec import Cycle, Entitlement, PoolSpec, Quota

CYCLES: tuple[Cycle, ...] = get_args(Cycle)
EVERYBODY = "*"
# Accounts of users that no spec names, in one pool. Who comes when they are all taken has what
# everybody has, and no more: less than its quota, never above it.
MOST_MET = 20_000
Key = tuple[str, str, Cycle]  # tenant, user, cycle


@dataclass(slots=True)
class Accounts:
    """The accounts of one pool: those of the spec in the order of their keys, then users met."""

    keys: list[Key]
    named: int  # how many the spec opens
    tenant: Ints  # place in the pool's terms
    group: Ints  # place in `groups`
    tokens: Ints
    rollover: Ints
    lends: Bools
    across: Bools
    model: Ints  # of a user met: the account of everybody that it was copied from; else itself
    groups: tuple[tuple[Cycle, str], ...]  # cycle and zone: accounts whose windows are the same
    whole: Ints  # (tenants, cycles): the tenant's account, or -1
    everybody: dict[int, tuple[int, ...]]  # by tenant
    users: dict[tuple[int, str], tuple[int, ...]]  # by tenant and user

    @property
    def of_tenants(self) -> Ints:
        """The accounts of tenants as a whole."""
        return np.sort(self.whole[self.whole >= 0])


def open_accounts(spec: PoolSpec | None, terms: Terms) -> Accounts:
    """The accounts that a spec opens."""
    opened = [*_opened(spec.entitlements)] if spec else []
    opened.sort(key=lambda row: (row[0][0], row[0][1], CYCLES.index(row[0][2])))
    quotas = [quota for _, quota in opened]
    groups = tuple(sorted({(quota.cycle, quota.zone) for quota in quotas}))
    accounts = Accounts(
        keys=[key for key, _ in opened],
        named=len(opened),
        tenant=_ints([terms.index[key[0]] for key, _ in opened]),
        group=_ints([groups.index((quota.cycle, quota.zone)) for quota in quotas]),
        tokens=_ints([quota.tokens for quota in quotas]),
        rollover=_ints([quota.rollover for quota in quotas]),
        lends=np.array([quota.lend for quota in quotas], dtype=np.bool_),
        across=np.array([quota.across for quota in quotas], dtype=np.bool_),
        model=np.arange(len(opened), dtype=np.int64),
        groups=groups,
        whole=np.full((len(terms.names), len(CYCLES)), -1, dtype=np.int64),
        everybody={},
        users={},
    )
    _index(accounts)
    return accounts


def meet(accounts: Accounts, users: Iterable[tuple[int, str]]) -> None:
    """Open the accounts of users, by tenant and name, that have none yet and can have some."""
    models: list[int] = []
    first = len(accounts.keys)
    for tenant, user in users:
        new = accounts.everybody.get(tenant, ())
        met = first - accounts.named + len(models)
        if (tenant, user) in accounts.users or user in ("", EVERYBODY) or met + len(new) > MOST_MET:
            continue
        places = range(first + len(models), first + len(models) + len(new))
        if new:
            accounts.users[tenant, user] = tuple(places)
            accounts.keys += [(accounts.keys[n][0], user, accounts.keys[n][2]) for n in new]
            models += new
    if models:
        _append(accounts, models)


def keep(accounts: Accounts, kept: Ints) -> None:
    """Close all accounts but these, given by their places in ascending order."""
    place = np.full(len(accounts.keys), -1, dtype=np.int64)
    place[kept] = np.arange(len(kept))
    accounts.keys = [accounts.keys[old] for old in kept.tolist()]
    for name in ("tenant", "group", "tokens", "rollover", "lends", "across"):
        setattr(accounts, name, getattr(accounts, name)[kept])
    accounts.model = place[accounts.model[kept]]
    _index(accounts)


def _append(accounts: Accounts, models: Sequence[int]) -> None:
    for name in ("tenant", "group", "tokens", "rollover", "lends", "across"):
        column = getattr(accounts, name)
        setattr(accounts, name, np.concatenate([column, column[models]]))
    accounts.model = np.concatenate([accounts.model, np.array(models, dtype=np.int64)])


def _opened(claims: Sequence[Entitlement]) -> Iterator[tuple[Key, Quota]]:
    for claim in claims:
        own = [(user.user, user.quotas) for user in claim.users]
        for user, quotas in (("", claim.quotas), (EVERYBODY, claim.user_quotas), *own):
            yield from (((claim.tenant, user, quota.cycle), quota) for quota in quotas)


def _index(accounts: Accounts) -> None:
    accounts.whole[:] = -1
    everybody: dict[int, tuple[int, ...]] = {}
    users: dict[tuple[int, str], tuple[int, ...]] = {}
    tenants = accounts.tenant.tolist()
    for place, (_, user, cycle) in enumerate(accounts.keys):
        tenant = tenants[place]
        if user == "":
            accounts.whole[tenant, CYCLES.index(cycle)] = place
        elif user == EVERYBODY:
            everybody[tenant] = (*everybody.get(tenant, ()), place)
        else:
            users[tenant, user] = (*users.get((tenant, user), ()), place)
    accounts.everybody, accounts.users = everybody, users


def _ints(values: Sequence[int]) -> Ints:
    return np.array(values, dtype=np.int64)
