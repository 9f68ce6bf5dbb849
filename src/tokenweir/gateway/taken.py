"""A slot that one block has: what is given out, and how it is renewed and lost."""

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from tokenweir.gateway.held import Held
from tokenweir.gateway.inheritance import Holder
from tokenweir.gateway.slot import Slot
from tokenweir.gateway.slot_states import SlotLost

if TYPE_CHECKING:
    from tokenweir.gateway.slots import Slots

MOST_FOLLOWERS = 8  # requests of one task at once that inherit its priority

C = TypeVar("C", bound=Held)
# A task has one priority, whatever it takes slots of.
_HOLDERS: "WeakKeyDictionary[asyncio.Task[Any], Holder]" = WeakKeyDictionary()


class Taken:
    """A slot that one block has. `priority` is what it works with, inherited or its own."""

    def __init__(self, slots: "Slots", priority: int, timeout_s: float, beats: bool) -> None:
        self._slots = slots
        self._priority = priority
        self._timeout_s = timeout_s
        self._beats = beats
        self._holder = Holder(priority)
        self._slot: Slot | None = None

    async def __aenter__(self) -> "Taken":
        """Wait for a slot; raises `NoSlot`."""
        task = asyncio.current_task()
        assert task is not None
        self._holder = _holder(task, self._priority)
        self._slot = await self._slots._get(self._holder, self._timeout_s)
        if self._beats:
            self._slots._beaten[self._slot] = task
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give it back; raises `SlotLost` where it was lost before the block ended."""
        try:
            self._slots._put(self._held)
        except SlotLost:
            if kind is None:
                raise

    @property
    def resource(self) -> Any:
        """What was opened for it."""
        return self._held.resource

    @property
    def version(self) -> str:
        """The version that it was opened for."""
        return self._held.version

    @property
    def priority(self) -> int:
        """Its task's priority: its own, or that of somebody who waits for what it holds."""
        return self._holder.priority

    @property
    def revoked(self) -> bool:
        """It should be given back soon: a reload, fewer slots, or somebody higher waits."""
        return self._held.state != "busy" or self._held.notice

    def beat(self) -> None:
        """Renew it; raises `SlotLost` when it is not ours any more."""
        self._slots._beat(self._held)

    def follow(self, call: C) -> C:
        """Let a request to a gateway inherit this task's priority, also while it waits.

        `async with slot.follow(gateway.request(…)) as call`.
        """
        call.priority = self.priority
        self._holder.followers[:] = [*self._holder.followers[1 - MOST_FOLLOWERS :], call.promote]
        return call

    @property
    def _held(self) -> Slot:
        assert self._slot is not None
        return self._slot


def _holder(task: "asyncio.Task[Any]", priority: int) -> Holder:
    holder = _HOLDERS.get(task)
    if holder is None:
        holder = _HOLDERS[task] = Holder(priority)
    elif not holder.holds:
        holder.own = holder.priority = priority
        holder.followers.clear()
    return holder
