"""Windows of quotas that end, and what goes over into the next ones."""

from dataclasses import dataclass

import numpy as np

from tokenweir.core.quota import calendar
from tokenweir.core.quota.quotas import (
    ACTIVE,
    AFTER,
    ASKED,
    BEFORE,
    CEILING,
    CEILING_AFTER,
    EXHAUSTED,
    GIVEN,
    GONE,
    HELD,
    LENT,
    LIMIT_BEFORE,
    NOW,
    PEAK,
    SINCE,
    SPENT,
    UNMETERED,
    WANTED,
    Group,
    Quotas,
    Share,
    close_accounts,
    counted,
    group_at,
)
from tokenweir.core.terms import Bools, Ints

# Empty windows that are gone through one by one; rollover has reached its cap long before.
MOST_SKIPPED = 1_000


@dataclass(frozen=True, slots=True)
class Turn:
    """Windows of one cycle and zone that ended, and the one that runs now."""

    group: Group  # as it is now
    reset: tuple[tuple[str, int, int], ...]  # whose quota was spent: name, left and limit now
    rolled: tuple[tuple[str, int, int], ...]  # name, its tokens, and what it may spend of more


def limits(quotas: Quotas) -> Ints:
    """What may be spent of each account in its window: its tokens, and what was rolled over or
    lent; of a quota across pools what this pool was given.
    """
    accounts, columns = quotas.accounts, quotas.columns
    own = accounts.tokens + rolled_over(quotas) + columns[LENT]
    found: Ints = np.where(accounts.across, columns[CEILING], np.maximum(own, 0))
    return found


def rolled_over(quotas: Quotas) -> Ints:
    """What the window before left unspent, up to the cap; what nobody told of counts as spent."""
    accounts = quotas.accounts
    rolled = np.zeros(len(accounts.keys), dtype=np.int64)
    some = np.flatnonzero(accounts.rollover)
    if len(some):
        left = quotas.columns[LIMIT_BEFORE, some] - _spent_before(quotas, some)
        rolled[some] = np.clip(left, 0, accounts.rollover[some])
    return rolled


def turn(quotas: Quotas, at_ms: int) -> tuple[Turn, ...]:
    """Move every window on that has ended; users of whom nothing is left are forgotten."""
    ended = [place for place, group in enumerate(quotas.groups) if group.now.ends_ms <= at_ms]
    turns = [_turn(quotas, place, at_ms) for place in ended]
    if ended:
        _forget_users(quotas)
    return tuple(turns)


def _turn(quotas: Quotas, place: int, at_ms: int) -> Turn:
    old = quotas.groups[place]
    quotas.groups[place] = new = group_at(old.cycle, old.zone, at_ms)
    inside = quotas.accounts.group == place
    was = np.flatnonzero(inside & (quotas.columns[EXHAUSTED] > 0))
    left = limits(quotas)[was] - sum(
        (share.figures[SPENT][NOW, was] for share in quotas.shares.values()), np.int64(0)
    )
    _shift(quotas, inside, old, new)
    limit, rolled = limits(quotas), rolled_over(quotas)
    more = np.flatnonzero(inside & (rolled > 0))
    return Turn(
        new,
        _rows(quotas, was, left, limit[was]),
        _rows(quotas, more, quotas.accounts.tokens[more], rolled[more]),
    )


def _shift(quotas: Quotas, inside: Bools, old: Group, new: Group) -> None:
    columns, accounts = quotas.columns, quotas.accounts
    skipped = _skipped(old, new)
    limit = limits(quotas)
    for name, share in quotas.shares.items():
        if skipped:
            limit = limit - np.where(inside, _effective(name, share, NOW, old.now.ends_ms), 0)
        _shift_share(share, inside, skipped)
    if skipped:
        # The first empty window had what the old one left, each later one that and its own tokens.
        over = np.clip(limit, 0, accounts.rollover) + (skipped - 1) * accounts.tokens
        limit = accounts.tokens + np.minimum(over, accounts.rollover)
    columns[LIMIT_BEFORE, inside] = limit[inside]
    columns[LENT, inside] = columns[EXHAUSTED, inside] = 0
    columns[CEILING, inside] = 0 if skipped else columns[CEILING_AFTER, inside]
    columns[CEILING_AFTER, inside] = 0
    # Bars end with the window, also at gateways that hear nothing.
    columns[SINCE, inside & (columns[ACTIVE] == 0)] = 0


def _shift_share(share: Share, inside: Bools, skipped: int) -> None:
    share.figures[PEAK, inside] //= 2  # large requests of long ago are forgotten
    share.figures[GIVEN.start + NOW, inside] = counted(share)[inside]
    share.figures[UNMETERED, inside] = 0
    for part in (SPENT, GIVEN):
        windows = share.figures[part]
        kept = 0 if skipped else windows[NOW:, inside]
        windows[:AFTER, inside] = kept
        windows[AFTER, inside] = 0


def _skipped(old: Group, new: Group) -> int:
    """The windows that nobody saw between two."""
    count, starts_ms = 0, old.now.ends_ms
    while starts_ms < new.now.starts_ms and count < MOST_SKIPPED:
        starts_ms = calendar.window(old.cycle, old.zone, starts_ms).ends_ms
        count += 1
    return count


def _spent_before(quotas: Quotas, some: Ints) -> Ints:
    ends_ms = np.array([group.before.ends_ms for group in quotas.groups], dtype=np.int64)
    ended = ends_ms[quotas.accounts.group[some]]
    total = np.zeros(len(some), dtype=np.int64)
    for name, share in quotas.shares.items():
        total += _effective(name, share, BEFORE, ended, some)
    return total


def _effective(
    name: str, share: Share, slot: int, ends_ms: Ints | int, some: Ints | slice = slice(None)
) -> Ints:
    """What counts as spent: what was reported, and all that was given where that is not the end."""
    spent = share.figures[SPENT][slot, some]
    given = (counted(share) if slot == NOW else share.figures[GIVEN][slot])[some]
    told = (share.told_ms >= ends_ms) & (name != GONE)
    effective: Ints = np.where(told, spent, np.maximum(spent, given))
    return effective


def _forget_users(quotas: Quotas) -> None:
    """Close the accounts of users met that have no more in any window than everybody has."""
    accounts = quotas.accounts
    if len(accounts.keys) == accounts.named:
        return
    used = np.zeros(len(accounts.keys), dtype=np.bool_)
    used[: accounts.named] = True
    for share in quotas.shares.values():
        given = share.figures[GIVEN]
        more = given[NOW:] > given[NOW:, accounts.model]
        used |= share.figures[SPENT].any(axis=0) | more.any(axis=0)
        used |= share.figures[[ASKED, WANTED, HELD]].any(axis=0)
    # A user's accounts come and go together.
    busy = {accounts.keys[place][:2] for place in np.flatnonzero(used).tolist()}
    kept = [place for place, key in enumerate(accounts.keys) if used[place] or key[:2] in busy]
    if len(kept) < len(accounts.keys):
        close_accounts(quotas, np.array(kept, dtype=np.int64))


def _rows(quotas: Quotas, places: Ints, *columns: Ints) -> tuple[tuple[str, int, int], ...]:
    names = [name_of(quotas, place) for place in places.tolist()]
    first, second = (column.tolist() for column in columns)
    return tuple(sorted(zip(names, first, second, strict=True)))


def name_of(quotas: Quotas, account: int) -> str:
    """Whose account it is: `tenant`, or `tenant/user`."""
    tenant, user, _ = quotas.accounts.keys[account]
    return f"{tenant}/{user}" if user else tenant
