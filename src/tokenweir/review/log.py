"""A pool's log and journal as review reads them, wherever they are kept."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tokenweir.usage_log import Message


@dataclass(frozen=True, slots=True)
class Bounds:
    """Which part of the usage log there is, by offset: `first` is there, `end` is not.

    `whole`: the pool has no messages before `first`.
    """

    first: int
    end: int
    whole: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the pool's journal, still encoded; positions only grow."""

    position: int
    value: bytes


@dataclass(frozen=True, slots=True)
class Letter:
    """A message of the usage log that the control plane could not use, and why."""

    offset: int
    append_ms: int
    reason: str


class PoolLog(Protocol):
    """One pool's part of the topics. Every iterator ends where the topic ended when it began."""

    @property
    def pool(self) -> str:
        """The pool's name."""

    @property
    def partition(self) -> int:
        """Where its records lie."""

    @property
    def partitions(self) -> int:
        """Of how many."""

    async def bounds(self) -> Bounds:
        """What there is of the usage log."""

    def messages(self, start: int) -> AsyncGenerator[Message, None]:
        """The messages under the pool's key, from offset `start` on."""

    async def time_at(self, offset: int) -> int | None:
        """The append time of the pool's first message at `offset` or later; None: there is none."""

    async def journal_start(self) -> int:
        """The first position of the journal that is still there; 0 is the very first."""

    def journal(self, position: int) -> AsyncGenerator[Entry, None]:
        """The pool's entries from `position` on."""

    def journal_before(self, time_ms: int | None) -> AsyncGenerator[Sequence[Entry], None]:
        """The pool's entries in windows, the newest window first, to the journal's beginning.

        `time_ms` says where to begin: everything that was written before it is in some window.
        """

    async def letters(self) -> Mapping[int, Letter]:
        """What the control plane could not use, by offset of the usage log."""
