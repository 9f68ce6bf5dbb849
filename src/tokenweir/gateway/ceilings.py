"""Quota ceilings: the most that this gateway may have spent in a window (PROTOCOL Q1)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from tokenweir.records.control import GatewayLeases

# The user whose ceilings hold for each user that has none of its own.
EVERYBODY = "*"


class Ceiling(NamedTuple):
    """One row of the ceilings in a lease record; `user` is empty for the tenant as a whole."""

    tenant: str
    user: str
    window_id: str
    starts_ms: int
    ends_ms: int
    tokens: int


@dataclass(slots=True)
class Window:
    """One window of a quota: what may be spent in it here, and what has been.

    `short_ms` is when it first lacked tokens since its ceiling last rose, pool time; 0: not yet.
    """

    window_id: str
    starts_ms: int
    ends_ms: int
    tokens: int
    spent: int = 0
    short_ms: int = 0

    @property
    def left(self) -> int:
        """Charged tokens that may still be spent; what was overspent is not owed here."""
        return max(self.tokens - self.spent, 0)


class Meter:
    """The quotas of one tenant or user, one a cycle: the windows that pool time lies in.

    A cycle is what stands before the `/` of a window's id. Where none of a cycle's windows covers
    the moment, its ceiling is not known, and nothing may be spent: a lease carries the next
    window's ceiling ahead of its start.
    """

    __slots__ = ("_cycles", "_known", "_now", "_rest", "_until_ms", "own")

    def __init__(self) -> None:
        self.own = True  # False: what everybody may spend, until its own ceilings come
        self._known: tuple[Window, ...] = ()  # those that the newest ceilings are of
        self._rest: tuple[Window, ...] = ()  # others that last, for what was spent in them
        self._cycles: frozenset[str] = frozenset()
        self._now: tuple[Window, ...] | None = None
        self._until_ms = 0  # pool time, which never runs backwards, until which `_now` holds

    def set(self, ceilings: Iterable[Ceiling], pool_ms: int) -> None:
        """Obey these ceilings; what was spent in a window that lasts is remembered."""
        before = {w.window_id: w for w in (*self._known, *self._rest) if w.ends_ms > pool_ms}
        self._known = tuple(_renewed(before.pop(c.window_id, None), c) for c in ceilings)
        self._rest = tuple(before.values())
        self._cycles = frozenset(_cycle(window) for window in self._known)
        self._until_ms = 0

    def lasts(self, pool_ms: int) -> bool:
        """One of its windows has not ended."""
        return any(window.ends_ms > pool_ms for window in (*self._known, *self._rest))

    def at(self, pool_ms: int) -> tuple[Window, ...] | None:
        """The windows that pool time lies in, one a cycle; None where one of them is not known."""
        if pool_ms >= self._until_ms:
            self._now = self._covering(pool_ms)
            edges = (edge for w in self._known for edge in (w.starts_ms, w.ends_ms))
            self._until_ms = min((edge for edge in edges if edge > pool_ms), default=pool_ms + 1)
        return self._now

    def _covering(self, pool_ms: int) -> tuple[Window, ...] | None:
        found = tuple(w for w in self._known if w.starts_ms <= pool_ms < w.ends_ms)
        return found if {_cycle(window) for window in found} == self._cycles else None


def ceilings(parts: Iterable[GatewayLeases]) -> dict[tuple[str, str], list[Ceiling]]:
    """The ceilings in a gateway's leases, by (tenant, user)."""
    found: dict[tuple[str, str], list[Ceiling]] = {}
    for part in parts:
        columns = (
            part.ceiling_tenant,
            part.ceiling_user,
            part.ceiling_window_id,
            part.ceiling_starts_ms,
            part.ceiling_ends_ms,
            part.ceiling_tokens,
        )
        for row in zip(*columns, strict=True):
            found.setdefault((row[0], row[1]), []).append(Ceiling(*row))
    return found


def _renewed(window: Window | None, ceiling: Ceiling) -> Window:
    if window is None:
        return Window(ceiling.window_id, ceiling.starts_ms, ceiling.ends_ms, ceiling.tokens)
    window.starts_ms, window.ends_ms = ceiling.starts_ms, ceiling.ends_ms
    if ceiling.tokens > window.tokens:
        window.short_ms = 0
    window.tokens = ceiling.tokens
    return window


def _cycle(window: Window) -> str:
    return window.window_id.rpartition("/")[0]
