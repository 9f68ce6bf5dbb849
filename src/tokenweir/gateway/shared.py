"""One pool's core for many threads: a lock is held for each step of it, and never while waiting."""

import asyncio
from collections.abc import Callable
from threading import RLock

from tokenweir.gateway.hearing import ControlRecord
from tokenweir.gateway.lane import Lane
from tokenweir.gateway.outlet import Outlet
from tokenweir.gateway.pool import PoolGate
from tokenweir.gateway.report import Heading
from tokenweir.gateway.request import Request
from tokenweir.gateway.rows import Gauge, Row
from tokenweir.gateway.spool import Spool


class SharedGate(PoolGate):
    """A `PoolGate` whose steps exclude each other; `lock` joins several into one."""

    def __init__(self, pool: str, gateway: str, *, most_waiting: int) -> None:
        self.lock = RLock()
        super().__init__(pool, gateway, most_waiting=most_waiting)

    def hear(self, record: ControlRecord, now_ms: int) -> None:
        """As `PoolGate`."""
        with self.lock:
            super().hear(record, now_ms)

    def acknowledged(self, append_ms: int, sent_ms: int, now_ms: int) -> None:
        """As `PoolGate`."""
        with self.lock:
            super().acknowledged(append_ms, sent_ms, now_ms)

    def ask(self, request: Request, now_ms: int) -> None:
        """As `PoolGate`."""
        with self.lock:
            super().ask(request, now_ms)

    def serve(self, now_ms: int) -> list[Request]:
        """As `PoolGate`."""
        with self.lock:
            return super().serve(now_ms)

    def abandon(self, request: Request, now_ms: int) -> None:
        """As `PoolGate`."""
        with self.lock:
            super().abandon(request, now_ms)

    def take_revoked(self) -> list[Request]:
        """As `PoolGate`."""
        with self.lock:
            return super().take_revoked()

    def suspend(self, request: Request, now_ms: int) -> None:
        """As `PoolGate`."""
        with self.lock:
            super().suspend(request, now_ms)

    def revoke(self, request: Request, now_ms: int) -> None:
        """As `PoolGate`."""
        with self.lock:
            super().revoke(request, now_ms)

    def promote(self, request: Request, priority: int, now_ms: int) -> None:
        """As `PoolGate`."""
        with self.lock:
            super().promote(request, priority, now_ms)

    def expire(self, now_ms: int) -> list[Request]:
        """As `PoolGate`."""
        with self.lock:
            return super().expire(now_ms)

    def forget(self, now_ms: int) -> None:
        """As `PoolGate`."""
        with self.lock:
            super().forget(now_ms)

    def close(self, now_ms: int) -> list[Request]:
        """As `PoolGate`."""
        with self.lock:
            return super().close(now_ms)

    def _taken(self, now_ms: int, closing: bool) -> tuple[Heading, list[Row], list[Gauge]]:
        # The reports are made from what is taken here without the lock: that takes far longer.
        with self.lock:
            return super()._taken(now_ms, closing)


class SharedOutlet(Outlet):
    """Sends the reports of a `SharedGate`."""

    def cut(self, closing: bool = False) -> None:
        """Cut now; with a spool on disk, what ends meanwhile must not get between its steps."""
        assert isinstance(self.gate, SharedGate)
        if isinstance(self.spool, Spool):
            super().cut(closing)
            return
        with self.gate.lock:
            super().cut(closing)


class SharedLane(Lane):
    """Wakes the threads that wait, from the event loop of another."""

    def __init__(self, gate: PoolGate, clock: Callable[[], int], hurry: Callable[[], None]) -> None:
        super().__init__(gate, clock, hurry)
        assert isinstance(gate, SharedGate)
        self.lock = gate.lock
        self.loop: asyncio.AbstractEventLoop | None = None  # None: it does not run
        self.hurry = self._hurry
        self._hurry_here = hurry

    def arm(self) -> None:
        """Serve when the core next has something to serve; from any thread."""
        loop, next_ms = self.loop, self.gate.next_ms
        if loop is None or next_ms is None or self._armed(next_ms):
            return
        if _runs_here(loop):
            super().arm()
        else:
            loop.call_soon_threadsafe(super().arm)

    def _armed(self, next_ms: int) -> bool:
        return self._timer is not None and self._timer_ms <= next_ms

    def _hurry(self) -> None:
        self.gate.hurry = False
        if self.loop is not None:
            self.loop.call_soon_threadsafe(self._hurry_here)


def _runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
