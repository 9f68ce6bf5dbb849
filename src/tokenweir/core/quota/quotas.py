"""What was spent and given of each quota, in the windows of its calendar (PROTOCOL T7, Q1).

        before        │         now          │       after
    ──────────────────┼──────────────────────┼──────────────────
      late usage still counts                  ceilings are given ahead of its start

Windows move on at decisions: at rest, the window `now` is that of the newest boundary. Arrays have
the shape (accounts,), amounts are charged tokens.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass, field

import numpy as np

from tokenweir.core.quota import calendar
from tokenweir.core.quota.accounts import Accounts, keep, meet, open_accounts
from tokenweir.core.terms import Ints, Terms, terms_of
from tokenweir.records.spec import Capacity, Cycle, PoolSpec, Zone

# The rows of `Share.figures`. By window:
SPENT, GIVEN = slice(0, 3), slice(3, 6)
BEFORE, NOW, AFTER = range(3)
UNMETERED = 6  # of what was spent in the window now, what no ceiling of the gateway counts
ASKED = 7  # charged and refused since the last decision
WANTED = 8  # the rate of what is asked for, smoothed, milli-tokens/s
PEAK = 9  # the most that one interval asked for lately
HELD, HELD_THEN = 10, 11  # charged to what runs beyond what it has used, and at the last decision
FIGURES = 12
# The rows of `Quotas.columns`.
LIMIT_BEFORE = 0  # of the window before
LENT = 1  # received from others in this window, or negative: lent to them
SINCE = 2  # ms: since then every decision has said how much each gateway may spend; 0: none does
SEEN = 3  # ms: the newest report that names it
EXHAUSTED = 4  # 1: the audit has said so
CEILING, CEILING_AFTER = 5, 6  # of a quota across pools: what this pool may spend (Q2)
ACTIVE = 7  # 1: its tenant's ceilings stand in the newest lease records
BARRED = 8  # of its tenant: ms until when, 1: until further notice, 0: it is not
COLUMNS = 9
# What gateways that have closed spent; silent ones that there is no room for stand here too.
GONE = ""
MOST_GONE = 64  # gateways that fell silent and whose accounts are kept apart


@dataclass(slots=True)
class Group:
    """Accounts with the same cycle and zone have the same windows."""

    cycle: Cycle
    zone: Zone
    before: calendar.Window
    now: calendar.Window
    after: calendar.Window


@dataclass(slots=True)
class Share:
    """One gateway's part of all accounts."""

    figures: Ints  # (FIGURES, accounts)
    told_ms: int = 0  # pool time up to which it has reported everything


@dataclass(slots=True)
class Quotas:
    """All quotas of one pool; `shares` by the gateways' names."""

    accounts: Accounts
    groups: list[Group]
    columns: Ints  # (COLUMNS, accounts)
    shares: dict[str, Share] = field(default_factory=dict)

    def windows(self, account: int) -> Group:
        """The windows of an account."""
        return self.groups[int(self.accounts.group[account])]

    def ends_ms(self) -> Ints:
        """When each account's window ends."""
        return np.array([group.now.ends_ms for group in self.groups], dtype=np.int64)[
            self.accounts.group
        ]


def new_quotas(spec: PoolSpec | None, terms: Terms, at_ms: int) -> Quotas:
    """The quotas of a spec, of which nothing is spent, at a boundary."""
    accounts = open_accounts(spec, terms)
    zones = {zone.name: zone for zone in spec.zones} if spec else {}
    groups = [group_at(cycle, zones[zone], at_ms) for cycle, zone in accounts.groups]
    return Quotas(accounts, groups, np.zeros((COLUMNS, len(accounts.keys)), dtype=np.int64))


def no_quotas() -> Quotas:
    """Of a pool without a spec."""
    return new_quotas(None, terms_of(None, Capacity(0, None, None)), 0)


def group_at(cycle: Cycle, zone: Zone, at_ms: int) -> Group:
    """The windows of a cycle in a zone around a moment."""
    now = calendar.window(cycle, zone, at_ms)
    before = calendar.window(cycle, zone, max(now.starts_ms - 1, 0))
    return Group(cycle, zone, before, now, calendar.window(cycle, zone, now.ends_ms))


def share_of(quotas: Quotas, gateway: str) -> Share:
    """The gateway's part, which begins with nothing."""
    if gateway not in quotas.shares:
        nothing = np.zeros((FIGURES, len(quotas.accounts.keys)), dtype=np.int64)
        quotas.shares[gateway] = Share(nothing)
    return quotas.shares[gateway]


def open_for(quotas: Quotas, users: Iterable[tuple[int, str]]) -> None:
    """Open the accounts of users that have none yet: gateways may have given what everybody has."""
    before = len(quotas.accounts.keys)
    meet(quotas.accounts, users)
    model = quotas.accounts.model[before:]
    if not len(model):
        return
    for share in quotas.shares.values():
        new = np.zeros((FIGURES, len(model)), dtype=np.int64)
        new[GIVEN] = share.figures[GIVEN, model]
        share.figures = np.concatenate([share.figures, new], axis=1)
    columns = np.zeros((COLUMNS, len(model)), dtype=np.int64)
    columns[LIMIT_BEFORE] = quotas.accounts.tokens[model]  # it spent nothing before
    columns[SINCE] = quotas.columns[SINCE, model]
    quotas.columns = np.concatenate([quotas.columns, columns], axis=1)


def close_accounts(quotas: Quotas, kept: Ints) -> None:
    """Forget all accounts but these."""
    keep(quotas.accounts, kept)
    quotas.columns = np.ascontiguousarray(quotas.columns[:, kept])
    for share in quotas.shares.values():
        share.figures = np.ascontiguousarray(share.figures[:, kept])


def leave(quotas: Quotas, gateway: str, exposed: Ints, *, closed: bool) -> None:
    """A gateway is gone: one that has closed gives back what it did not spend (Q1).

    A silent one's part counts as spent, with what starter pots could give it (`exposed`), until its
    reports say otherwise.
    """
    share = quotas.shares.get(gateway)
    if share is None:
        return
    share.figures[ASKED:] = 0
    if closed:
        share.figures[GIVEN], share.figures[UNMETERED] = share.figures[SPENT], 0
        _merge(quotas, gateway)
        return
    share.figures[GIVEN][NOW] = np.maximum(counted(share), share.figures[SPENT][NOW] + exposed)
    share.figures[UNMETERED] = 0
    gone = sorted((share.told_ms, name) for name, share in quotas.shares.items() if name != GONE)
    while len(gone) > MOST_GONE:
        _merge(quotas, gone.pop(0)[1])


def counted(share: Share) -> Ints:
    """What the gateway may have spent by its ceilings, and what it spent before it had any."""
    most: Ints = share.figures[GIVEN][NOW] + np.maximum(share.figures[UNMETERED], 0)
    return most


def _merge(quotas: Quotas, gateway: str) -> None:
    share = quotas.shares.pop(gateway)
    share.figures[GIVEN] = np.maximum(share.figures[GIVEN], share.figures[SPENT])
    share_of(quotas, GONE).figures += share.figures


def close_interval(quotas: Quotas, present: Container[str]) -> None:
    """A decision was taken: what is asked for is counted anew; `present` are the pool's gateways.

    Gateways that are gone are forgotten when nothing of theirs is left in any window.
    """
    for name, share in [*quotas.shares.items()]:
        share.figures[ASKED] = 0
        share.figures[HELD_THEN] = share.figures[HELD]
        if name not in present and not share.figures.any():
            del quotas.shares[name]


def reopened(old: Quotas, spec: PoolSpec, terms: Terms, at_ms: int) -> Quotas:
    """The quotas of a new spec; what was spent and given of those that go on is kept."""
    new = new_quotas(spec, terms, at_ms)
    met = old.accounts.keys[old.accounts.named :]
    open_for(new, [(terms.index[key[0]], key[1]) for key in met if key[0] in terms.index])
    index = {key: place for place, key in enumerate(new.accounts.keys)}
    was = [place for place, key in enumerate(old.accounts.keys) if key in index]
    now = [index[old.accounts.keys[place]] for place in was]
    new.columns[:, now] = old.columns[:, was]
    for name, share in old.shares.items():
        moved = share_of(new, name)
        moved.told_ms = share.told_ms
        moved.figures[:, now] = share.figures[:, was]
    return new
