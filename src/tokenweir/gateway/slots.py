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
from typing import Any

from tokenweir.errors import BadInput, TokenweirError
from tokenweir.gateway.inheritance import Holder
from tokenweir.gateway.monotonic import boot_ms
from tokenweir.gateway.rack import Rack
from tokenweir.gateway.slot import Slot, Want
from tokenweir.gateway.taken import Taken

LOG = logging.getLogger(__name__)
BEATS = 4  # heartbeats in a life
RETRY_S = 0.5  # after a slot could not be opened


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


async def _either(event: asyncio.Event, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return


def _check(size: int, ready: int) -> None:
    if size < 1 or not 0 <= ready <= size:
        raise BadInput(f"size is {size}, ready is {ready}; allowed is 0 <= ready <= size, size > 0")
