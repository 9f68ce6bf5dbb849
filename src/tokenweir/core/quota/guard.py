"""How quotas are kept until the next decision: by ceilings, or by the bar (PROTOCOL Q1, L8).

A tenant without ceilings at its gateways may be served from their starter pots. So each quota is
guarded, by ceilings in all lease records or by the bar, or has room for all that the pots can give.
Arrays have the shape (accounts,) unless told otherwise.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tokenweir.core.pool import Pool
from tokenweir.core.quota.ceilings import raised, starter
from tokenweir.core.quota.exposure import exposure
from tokenweir.core.quota.quotas import (
    ACTIVE,
    AFTER,
    BARRED,
    GIVEN,
    HELD,
    NOW,
    SEEN,
    SINCE,
    SPENT,
    UNMETERED,
    Quotas,
    share_of,
)
from tokenweir.core.quota.rations import Rations, next_limits, soon
from tokenweir.core.terms import Bools, Ints
from tokenweir.records.spec import PoolSpec

# Users keep ceilings of their own so long after their last report; then everybody's hold for them.
LINGER_MS = 300_000
# So many idle tenants whose quotas are smaller than what pots could give have ceilings all the
# time; the others are barred from the pots until they ask.
MOST_SMALL = 256


@dataclass(frozen=True, slots=True)
class Guarded:
    """What is said of quotas in this decision."""

    shown: Ints  # accounts whose ceilings stand in lease records, in the order of their keys
    ahead: Bools  # whose next window begins within a lease life
    given: Ints  # of all gateways together
    barred: Mapping[int, int]  # tenant: until when, ms; 0: until further notice
    changed: bool  # whether another bar was published last


NOTHING = Guarded(
    shown=np.zeros(0, dtype=np.int64),
    ahead=np.zeros(0, dtype=np.bool_),
    given=np.zeros(0, dtype=np.int64),
    barred={},
    changed=False,
)


def guard(
    pool: Pool,
    spec: PoolSpec,
    at_ms: int,
    rations: Rations,
    busy: Bools,
    renewed: Mapping[str, bool],
) -> Guarded:
    """Raise ceilings, and bar whom none guard; `busy` are the tenants that were here lately.

    `renewed` are the gateways that are sent leases now, and whether they may have more.
    """
    quotas = pool.quotas
    for name in renewed:
        share_of(quotas, name)
    desk = _Desk(pool, spec, at_ms, rations, renewed)
    active, barred = desk.stances(busy)
    shown = desk.show(active)
    order = sorted(shown.tolist(), key=quotas.accounts.keys.__getitem__)
    changed = _note(quotas, active, barred, at_ms)
    return Guarded(np.array(order, dtype=np.int64), desk.near, desk.given(), barred, changed)


def _note(quotas: Quotas, active: Bools, barred: Mapping[int, int], at_ms: int) -> bool:
    """Remember since when each quota is guarded, and how; whether another bar was said last."""
    bars = np.zeros(len(active), dtype=np.int64)
    bars[[*barred]] = [until_ms or 1 for until_ms in barred.values()]
    bars, active = bars[quotas.accounts.tenant], active[quotas.accounts.tenant]
    columns = quotas.columns
    since = np.where(columns[SINCE] > 0, columns[SINCE], at_ms)
    columns[SINCE] = np.where(active | (bars > 0), since, 0)
    changed = bool((columns[BARRED] != bars).any())
    columns[ACTIVE], columns[BARRED] = active, bars
    return changed


class _Desk:
    """One decision's accounts, gateway by gateway in the order of their names."""

    def __init__(
        self,
        pool: Pool,
        spec: PoolSpec,
        at_ms: int,
        rations: Rations,
        renewed: Mapping[str, bool],
    ) -> None:
        self.spec, self.at_ms, self.rations = spec, at_ms, rations
        self.pool, self.quotas, self.terms = pool, pool.quotas, pool.terms
        self.names = sorted(self.quotas.shares)
        self.live = np.array([[renewed.get(name, False)] for name in self.names], dtype=np.bool_)
        self.ends_ms = self.quotas.ends_ms()
        self.near = at_ms + spec.lease_ms >= self.ends_ms
        found = exposure(pool, spec)
        self.committed, self.idle, self.pots = found.committed, found.idle, found.pots

    def stances(self, busy: Bools) -> tuple[Bools, dict[int, int]]:
        """The tenants, shape (tenants,), that have ceilings, and those barred, and until when."""
        accounts, limit = self.quotas.accounts, self.rations.limit
        coming = np.where(self.near | ~accounts.across, next_limits(self.pool), limit)
        later = self._any(self.pots > coming)
        full = self.idle > limit
        small = self._any(full) | later
        whole = np.zeros(len(limit), dtype=np.bool_)
        whole[accounts.of_tenants] = True
        out = whole & (self.rations.left <= 0)
        spent = self._any(out)
        was = self._any(self.quotas.columns[ACTIVE] > 0)
        kept = (was & ~later) | (np.cumsum(small & ~busy & ~spent) <= MOST_SMALL)
        active = self._any(np.ones(len(limit), dtype=np.bool_)) & (busy | (small & ~spent & kept))
        ends = np.zeros(len(active), dtype=np.int64)
        np.maximum.at(ends, accounts.tenant[out], self.ends_ms[out])
        # More may come at any moment to a quota across pools. Gateways lift a bar by themselves
        # only where the next window has room for the pots.
        tight = (self._any(full & ~out) | later) & ~active
        open_end = self._any(out & accounts.across) | tight | ~spent
        barred = np.flatnonzero(spent | (small & ~active)).tolist()
        return active, {place: 0 if open_end[place] else int(ends[place]) for place in barred}

    def show(self, active: Bools) -> Ints:
        """Raise the ceilings of active tenants; the accounts that have them."""
        accounts = self.quotas.accounts
        place = np.arange(len(accounts.keys))
        inside = active[accounts.tenant]
        met = place >= accounts.named
        self._raise(np.flatnonzero(inside & ~met))
        forced = self._as_everybody() if met.any() else np.zeros(len(place), dtype=np.bool_)
        lately = self.at_ms - self.quotas.columns[SEEN] <= LINGER_MS
        users = np.flatnonzero(inside & met & (lately | forced))
        self._raise(users)
        return np.concatenate([np.flatnonzero(inside & ~met), users])

    def given(self) -> Ints:
        """What all gateways together may have spent."""
        parts = [self.quotas.shares[name].figures[GIVEN][NOW] for name in self.names]
        return sum(parts, np.zeros_like(self.committed))

    def _any(self, which: Bools) -> Bools:
        """Whether any of a tenant's accounts is so; shape (tenants,)."""
        found = np.zeros(len(self.terms.names), dtype=np.bool_)
        found[self.quotas.accounts.tenant[which]] = True
        return found

    def _raise(self, places: Ints) -> None:
        if not len(places):
            return
        figures = [self.quotas.shares[name].figures[:, places] for name in self.names]
        shares = [self.quotas.shares[name] for name in self.names]
        ahead = np.stack([soon(share, places, self.spec) for share in shares])
        near = self.near[places]
        coming = next_limits(self.pool)[places]
        for window, limit in ((NOW, self.rations.limit[places]), (AFTER, coming)):
            given = np.stack([each[GIVEN][window] for each in figures])
            spent = np.stack([each[SPENT][window] for each in figures])
            if window == NOW:  # as the gateways count it
                unmetered = np.stack([np.maximum(each[UNMETERED], 0) for each in figures])
                running = np.stack([each[HELD] for each in figures])
                spent = np.maximum(spent - unmetered, 0) + running
                free = limit - self.committed[places]
            else:
                free = np.where(near, limit - np.maximum(given, spent).sum(axis=0), 0)
            least = starter(limit, int(self.live.sum()))
            after = raised(given, spent, ahead, self.live, free, least)
            for row, name in enumerate(self.names):
                self.quotas.shares[name].figures[GIVEN.start + window, places] = after[row]

    def _as_everybody(self) -> Bools:
        """Users met have what everybody has, everywhere; if that does not fit: who is shown."""
        accounts = self.quotas.accounts
        users = np.arange(accounts.named, len(accounts.keys))
        model = accounts.model[users]
        forced = np.zeros(len(accounts.keys), dtype=np.bool_)
        for window, limit in ((NOW, self.rations.limit), (AFTER, next_limits(self.pool))):
            rows = GIVEN.start + window
            shares = [self.quotas.shares[name].figures for name in self.names]
            lacks = [np.maximum(each[rows, model] - each[rows, users], 0) for each in shares]
            total = sum(lacks, np.int64(0))
            held = sum((each[rows, users] for each in shares), np.int64(0))
            held = np.maximum(held, self.committed[users]) if window == NOW else held
            fits = held + total <= limit[users]
            for each, lack in zip(shares, lacks, strict=True):
                each[rows, users] += np.where(fits, lack, 0)
            if window == NOW:
                self.committed[users] += np.where(fits, total, 0)
            forced[users] |= ~fits & (total > 0)
        return forced
