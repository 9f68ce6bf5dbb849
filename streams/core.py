"""The arithmetic that the runtime is built around, as it sees it: functions over a pool's state."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from tokenweir.core.step import Decided
from tokenweir.records.journal import JournalEntry


class PoolState(Protocol):
    """What the runtime must see of a pool; the rest is the core's."""

    @property
    def name(self) -> str:
        """The pool's name."""

    @property
    def clock_ms(self) -> int:
        """The largest append time so far (T1)."""

    @property
    def boundary_ms(self) -> int:
        """The time of the last decision, 0 before the first."""


P = TypeVar("P", bound=PoolState)


@dataclass(frozen=True, slots=True)
class Core(Generic[P]):
    """The arithmetic that a partition runs: `tokenweir.core` live, something tiny in tests."""

    arithmetic: int
    new_pool: Callable[[str], P]
    advance: Callable[[P, int], Decided | None]
    fold: Callable[[P, Any, int], Sequence[JournalEntry]]
    to_rows: Callable[[P], dict[str, bytes]]
    from_rows: Callable[[Mapping[str, bytes]], P]
