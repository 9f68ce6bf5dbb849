"""Quota ceilings: the most that this gateway may have spent in a window (PROTOCOL Q1)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from tokenweir.records.control import GatewayLeases


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
    """One window of a quota: what may be spent in it here, and what has been."""

    window_id: str
    starts_ms: int
    ends_ms: int
    tokens: int
    spent: int = 0

    @property
    def left(self) -> int:
        """Charged tokens that may still be spent; what was overspent is not owed here."""
        return max(self.tokens - self.spent, 0)


class Meter:
    """The windows of one tenant's or user's quota, told apart by pool time.

    Where no window covers the moment, the ceiling is not known, and nothing may be spent: a lease
    carries the next window's ceiling ahead of its start.
    """

    __slots__ = ("_windows",)

    def __init__(self) -> None:
        self._windows: tuple[Window, ...] = ()

    def set(self, ceilings: Iterable[Ceiling], pool_ms: int) -> None:
        """Obey these ceilings; what was spent in a window that lasts is remembered."""
        before = {w.window_id: w for w in self._windows if w.ends_ms > pool_ms}
        for window in before.values():
            window.tokens = 0
        renewed = [_renewed(before.pop(c.window_id, None), c) for c in ceilings]
        self._windows = (*renewed, *before.values())

    def lasts(self, pool_ms: int) -> bool:
        """One of its windows has not ended."""
        return any(window.ends_ms > pool_ms for window in self._windows)

    def at(self, pool_ms: int) -> Window | None:
        """The window that pool time lies in."""
        for window in self._windows:
            if window.starts_ms <= pool_ms < window.ends_ms:
                return window
        return None


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
    window.tokens = ceiling.tokens
    return window
