"""What a gateway developer holds while a request runs in a thread."""

import time
from threading import Event
from types import TracebackType

from tokenweir.gateway.held import Held
from tokenweir.gateway.reasons import AlreadyEnded
from tokenweir.gateway.shared import SharedLane

LATE_S = 1.0  # how much longer than its longest wait a thread trusts the other to wake it


class SyncCall(Held):
    """One request: entering it admits, blocks this thread or raises `Refused`; leaving it without
    `settle` or `cancel` leaves a marked estimate. Any thread may settle it.
    """

    __slots__ = ("_event",)

    _lane: SharedLane

    def __enter__(self) -> "SyncCall":
        """Ask for admission; raises `Refused`."""
        lane = self._lane
        with lane.lock:
            lane.gate.ask(self, lane.clock())
            waits = self.state == "waiting"
            if waits:
                self.begin_wait()
        if lane.gate.hurry:
            lane.hurry()
        if waits:
            self._wait()
        if self.state != "admitted":
            raise lane.refused(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the request if nobody has: its usage is then an estimate, and marked as one."""
        if self.state == "ended":
            return
        with self._lane.lock:
            if self.state in ("admitted", "suspended"):
                self._leave(kind)

    def resumed(self, timeout_s: float | None = None) -> bool:
        """Wait while it is suspended; False when that takes longer than `timeout_s`.

        Raises `AlreadyEnded`, `Overdue` or `Revoked` when it was ended meanwhile.
        """
        until_s = None if timeout_s is None else time.monotonic() + timeout_s
        while self.state == "suspended":
            left_s = None if until_s is None else until_s - time.monotonic()
            if left_s is not None and left_s <= 0:
                return False
            self._event.wait(left_s)
        if self.state != "admitted":
            raise self.stopped or AlreadyEnded(self.id, self.status)
        return True

    def begin_wait(self) -> None:
        """From now on `tell` wakes whoever waits for it."""
        self._event = Event()

    def tell(self) -> None:
        """It waits no longer, or goes on."""
        self._event.set()

    def produced(self, tokens_out: int = 0, *, uncached: int = 0, cached: int = 0) -> None:
        """As `Call.produced`."""
        with self._lane.lock:
            super().produced(tokens_out, uncached=uncached, cached=cached)

    def settle(
        self,
        *,
        uncached: int | None = None,
        cached: int = 0,
        out: int | None = None,
        cache_write: int = 0,
        error: bool = False,
        reason: str = "",
        estimated: bool = False,
        cancelled: bool = False,
    ) -> None:
        """As `Call.settle`."""
        with self._lane.lock:
            super().settle(
                uncached=uncached,
                cached=cached,
                out=out,
                cache_write=cache_write,
                error=error,
                reason=reason,
                estimated=estimated,
                cancelled=cancelled,
            )

    def cancel(self, reason: str = "") -> None:
        """As `Call.cancel`."""
        with self._lane.lock:
            super().cancel(reason)

    def abandon(self) -> None:
        """As `Call.abandon`."""
        with self._lane.lock:
            super().abandon()

    def _wait(self) -> None:
        lane = self._lane
        lane.arm()
        try:
            told = self._event.wait(self._left_s() + LATE_S)
            while not told and self._left_s():  # it was prolonged meanwhile
                told = self._event.wait(self._left_s() + LATE_S)
        except BaseException:
            lane.gate.abandon(self, lane.clock())
            raise
        if not told:
            lane.gate.abandon(self, lane.clock())

    def _left_s(self) -> float:
        return max(self.deadline_ms - self._lane.clock(), 0) / 1000
