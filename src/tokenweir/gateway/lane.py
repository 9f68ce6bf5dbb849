"""One pool's core with a clock and an event loop around it."""

import asyncio
from collections.abc import Callable

from tokenweir.gateway.hearing import ControlRecord
from tokenweir.gateway.pool import PoolGate
from tokenweir.gateway.reasons import Denial, Refused
from tokenweir.gateway.request import Request


class Waiter(Request):
    """A request with somebody who waits for it."""

    __slots__ = ("_future", "_task", "overdue")

    _future: "asyncio.Future[None]"
    _task: "asyncio.Task[object] | None"
    overdue: bool  # it ran too long, and its task was cancelled for that


class Lane:
    """Wakes who waits exactly when tokens are there, and passes time to the core."""

    def __init__(self, gate: PoolGate, clock: Callable[[], int], hurry: Callable[[], None]) -> None:
        self.gate = gate
        self.clock = clock
        self.hurry = hurry
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0

    def hear(self, record: ControlRecord) -> None:
        """Take a control record; raises `BadRecord` for one that makes no sense."""
        self.gate.hear(record, self.clock())
        self.arm()

    def forget(self) -> None:
        """This gateway's leases are gone from the control topic."""
        self.gate.leases.forget(self.clock())

    async def wait(self, request: Waiter) -> None:
        """Until it is admitted or refused; whoever is cancelled meanwhile returns everything."""
        request._future = asyncio.get_running_loop().create_future()
        self.arm()
        try:
            await request._future
        except BaseException:
            self.gate.abandon(request, self.clock())
            self.arm()
            raise

    def arm(self) -> None:
        """Serve when the core next has something to serve."""
        next_ms = self.gate.next_ms
        if next_ms is None or (self._timer is not None and self._timer_ms <= next_ms):
            return
        self.disarm()
        delay_s = max(next_ms - self.clock(), 0) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._serve)
        self._timer_ms = next_ms

    def disarm(self) -> None:
        """Serve no more until `arm` is called."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def expire(self) -> None:
        """End what ran too long, and stop the task that runs it."""
        for request in self.gate.expire(self.clock()):
            assert isinstance(request, Waiter)
            if request._task is not None:
                request.overdue = True
                request._task.cancel()
        self.arm()

    def close(self) -> None:
        """Admit nothing more; who waits is told."""
        self.disarm()
        self._tell(self.gate.close(self.clock()))

    def refused(self, request: Request) -> Refused:
        """The error for a request that was not admitted."""
        denial = request.denial or Denial("closing", None, False)
        retry_ms = self.gate.interval_ms if denial.retry_ms is None else denial.retry_ms
        asked = {"sequences": request.sequences, "kv_bytes": request.kv_bytes}
        return Refused(
            pool=self.gate.pool,
            tenant=request.tenant,
            reason=denial.reason,
            retry_after_s=max(retry_ms, 1) / 1000,
            decision_id=self.gate.decision_id,
            needed=asked.get(denial.reason, request.cost // 1000),
            available=denial.available,
        )

    def _serve(self) -> None:
        self._timer = None
        self._tell(self.gate.serve(self.clock()))
        self.arm()

    def _tell(self, ended: list[Request]) -> None:
        for request in ended:
            assert isinstance(request, Waiter)
            if not request._future.done():
                request._future.set_result(None)
