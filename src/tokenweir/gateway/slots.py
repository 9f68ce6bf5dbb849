"""Slots for what can only be done so often at once, for asyncio.

async with Slots(8, open=connect, close=disconnect, ready=2, version="m-1") as slots:
    async with slots.take(priority=3, timeout_s=5) as slot:
        answer = await slot.resource.generate(...)
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from tokenweir.errors import BadInput, TokenweirError
from tokenweir.gateway.held import Held
from tokenweir.gateway.inheritance import Holder
from tokenweir.gateway.monotonic import boot_ms
from tokenweir.gateway.rack import Rack, Slot, Want
from tokenweir.gateway.slot_states import SlotLost

LOG = logging.getLogger(__name__)
BEATS = 4  # heartbeats in a life
MOST_FOLLOWERS = 8  # requests of one task at once that inherit its priority
RETRY_S = 0.5  # after a slot could not be opened

C = TypeVar("C", bound=Held)
# A task has one priority, whatever it takes slots of.
_HOLDERS: "WeakKeyDictionary[asyncio.Task[Any], Holder]" = WeakKeyDictionary()


class NoSlot(TokenweirError, TimeoutError):
    """No slot was free in time, too many wait, or the slots are closed: try again later."""


@dataclass(frozen=True, slots=True)
class SlotStats:
    """The slots as they stand, and what has been lost since the start."""

    version: str
    size: int
    idle: int
    in_use: int
    waiting: int
    lost: int  # not renewed in time
    preempted: int  # taken for somebody of a higher priority


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


class Slots:
    """At most `size` in use at once; `ready` of them opened ahead by `open`.

    `version` may be a function: when it tells another one, slots of that are opened beside the
    old ones, which then drain. While a block's task runs, its slot is renewed by itself, unless
    it was taken with `beats=False`.
    """

    def __init__(
        self,
        size: int,
        *,
        open: Callable[[str], Awaitable[Any]] | None = None,
        close: Callable[[Any], Awaitable[None]] | None = None,
        version: str | Callable[[], str] = "",
        ready: int = 0,
        base_timeout_s: float = 60.0,
        inversion_s: float = 10.0,
        most_waiting: int = 1_000,
        clock: Callable[[], int] = boot_ms,
    ) -> None:
        _check(size, ready)
        self._version = version
        self._open = open
        self._close = close
        self._clock = clock
        self._rack = Rack(
            size,
            version() if callable(version) else version,
            ready=ready,
            base_ms=int(base_timeout_s * 1000),
            inversion_ms=int(inversion_s * 1000),
            most_waiting=most_waiting,
        )
        self._futures: dict[Want, asyncio.Future[None]] = {}
        self._beaten: dict[Slot, asyncio.Task[Any]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._poke = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Slots":
        """Begin to open slots."""
        self._keeper = asyncio.create_task(self._keep(), name="slots")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Refuse who waits, and close what is open."""
        if self._keeper is not None:
            self._keeper.cancel()
        for future in self._futures.values():
            future.cancel()
        self._rack.shut()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._work()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def take(self, *, priority: int = 2, timeout_s: float = 10.0, beats: bool = True) -> Taken:
        """A slot to enter with `async with`; 1, 2, 3 are the priorities, 3 is the highest."""
        if priority not in (1, 2, 3):
            raise BadInput(f"priority is {priority!r}; allowed are 1, 2 and 3")
        return Taken(self, priority, timeout_s, beats)

    def reload(self, version: str) -> None:
        """Go over to another version: its slots are opened, those of the old one drain."""
        self._version = version
        self._rack.reload(version)
        self._poke.set()

    def resize(self, size: int) -> None:
        """Let so many be in use from now on."""
        _check(size, self._rack.ready)
        self._rack.resize(size, self._clock())
        self._poke.set()

    def stats(self) -> SlotStats:
        """The slots as they stand."""
        rack = self._rack
        return SlotStats(
            version=rack.version,
            size=rack.size,
            idle=rack.idle(),
            in_use=rack.in_use,
            waiting=rack.waiting,
            lost=rack.lost,
            preempted=rack.preempted,
        )

    async def _get(self, holder: Holder, timeout_s: float) -> Slot:
        want = Want(holder, self._clock() + int(timeout_s * 1000))
        if not self._rack.ask(want, self._clock()):
            raise NoSlot(f"{self._rack.waiting} wait for one of {self._rack.size} slots already")
        self._tell()
        self._poke.set()
        if want.slot is None:
            await self._wait(want)
        if want.slot is None:
            raise NoSlot(f"none of {self._rack.size} slots was free within {timeout_s:g} s")
        return want.slot

    async def _wait(self, want: Want) -> None:
        future = self._futures[want] = asyncio.get_running_loop().create_future()
        try:
            await future
        except asyncio.CancelledError:
            self._rack.withdraw(want)
            if want.slot is not None:
                self._put(want.slot)
            if self._keeper is None or self._keeper.cancelled() or self._keeper.cancelling():
                raise NoSlot("the slots are closed") from None
            raise
        finally:
            self._futures.pop(want, None)

    def _put(self, slot: Slot) -> None:
        self._beaten.pop(slot, None)
        try:
            self._rack.give_back(slot, self._clock())
        finally:
            self._tell()
            self._poke.set()

    def _beat(self, slot: Slot) -> None:
        self._rack.beat(slot, self._clock())

    def _tell(self) -> None:
        """Wake who has got a slot."""
        granted, self._rack.granted = self._rack.granted, []
        for want in granted:
            future = self._futures.get(want)
            if future is not None and not future.done():
                future.set_result(None)

    async def _keep(self) -> None:
        """Renew, end and open slots when it is due, until cancelled."""
        while True:
            self._poke.clear()
            if callable(self._version):
                self._rack.reload(self._version())
            self._renew()
            for want in self._rack.turn(self._clock()):
                future = self._futures.get(want)
                if future is not None and not future.done():
                    future.set_result(None)
            self._tell()
            self._work()
            due_ms = min(self._rack.next_ms() - self._clock(), self._rack.base_ms // BEATS)
            await _either(self._poke, max(due_ms, 1) / 1000)

    def _renew(self) -> None:
        for slot, task in tuple(self._beaten.items()):
            if not task.done() and slot.state in ("busy", "revoke"):
                self._beat(slot)

    def _work(self) -> None:
        """Open and close what the rack wants."""
        for version in self._rack.to_open():
            self._start(self._opened(version))
        closing, self._rack.to_close = self._rack.to_close, []
        for slot in closing:
            if self._close is not None:
                self._start(self._closed(slot))

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _opened(self, version: str) -> None:
        try:
            resource = await self._open(version) if self._open is not None else None
        except Exception:
            LOG.exception("a slot of version %r could not be opened", version)
            await asyncio.sleep(RETRY_S)
            self._rack.failed(version)
        else:
            self._rack.opened(version, resource, self._clock())
            self._tell()
        self._poke.set()

    async def _closed(self, slot: Slot) -> None:
        assert self._close is not None
        try:
            await self._close(slot.resource)
        except Exception:
            LOG.exception("a slot of version %r did not close cleanly", slot.version)


def _holder(task: "asyncio.Task[Any]", priority: int) -> Holder:
    holder = _HOLDERS.get(task)
    if holder is None:
        holder = _HOLDERS[task] = Holder(priority)
    elif not holder.holds:
        holder.own = holder.priority = priority
        holder.followers.clear()
    return holder


async def _either(event: asyncio.Event, timeout_s: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), timeout_s)
    except TimeoutError:
        return


def _check(size: int, ready: int) -> None:
    if size < 1 or not 0 <= ready <= size:
        raise BadInput(f"size is {size}, ready is {ready}; allowed is 0 <= ready <= size, size > 0")
