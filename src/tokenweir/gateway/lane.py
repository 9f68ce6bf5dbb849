"""One pool's core with a clock and an event loop around it."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from tokenweir.gateway.hearing import ControlRecord
from tokenweir.gateway.pool import PoolGate
from tokenweir.gateway.reasons import Denial, Overdue, Refused, Revoked
from tokenweir.gateway.request import Request

LOG = logging.getLogger(__name__)

# What becomes of a running request whose entitlement is revoked.
OnRevoke: TypeAlias = Callable[[Any], Literal["suspend", "cancel", "go on"]]


class Waiter(Request):
    """A request with somebody who waits for it."""

    __slots__ = ("_future", "_task", "on_revoke", "stopped")

    _future: "asyncio.Future[None] | None"  # set when it first waits or is suspended
    _task: "asyncio.Task[object] | None"
    on_revoke: OnRevoke | None
    stopped: Overdue | Revoked | None  # why its task was cancelled

    @property
    def overdue(self) -> bool:
        """It ran too long, and its task was cancelled for that."""
        return isinstance(self.stopped, Overdue)

    def begin_wait(self) -> None:
        """From now on `tell` wakes whoever waits for it."""
        self._future = asyncio.get_running_loop().create_future()

    def tell(self) -> None:
        """It waits no longer, or goes on."""
        if self._future is not None and not self._future.done():
            self._future.set_result(None)


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
        if self.gate.revoked:
            self._revoke()
        self.arm()

    def forget(self) -> None:
        """This gateway's leases are gone from the control topic."""
        self.gate.forget(self.clock())

    async def wait(self, request: Waiter) -> None:
        """Until it is admitted or refused; whoever is cancelled meanwhile returns everything."""
        request.begin_wait()
        self.arm()
        try:
            assert request._future is not None
            await request._future
        except BaseException:
            self.gate.abandon(request, self.clock())
            self.arm()
            raise

    async def rest(self, request: Waiter) -> None:
        """Until a suspended request goes on or ends."""
        if request._future is None or request._future.done():
            request.begin_wait()
        assert request._future is not None
        await request._future

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
        longest_s = self.gate.longest_request_ms / 1000
        for request in self.gate.expire(self.clock()):
            _stop(request, Overdue(f"request {request.id!r} ran longer than {longest_s:g} s"))
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
            user=denial.user,
        )

    def _serve(self) -> None:
        self._timer = None
        self._tell(self.gate.serve(self.clock()))
        self.arm()

    def _tell(self, ended: list[Request]) -> None:
        for request in ended:
            assert isinstance(request, Waiter)
            request.tell()

    def _revoke(self) -> None:
        """Ask each running request of a revoked tenant what should become of it."""
        for request in self.gate.take_revoked():
            assert isinstance(request, Waiter)
            wish = _wish(request)
            if request.state != "admitted":
                continue  # its callback has ended it
            if wish == "suspend":
                request.begin_wait()
                self.gate.suspend(request, self.clock())
            elif wish == "cancel":
                self.gate.revoke(request, self.clock())
                _stop(request, Revoked(request.id, request.held // 1000))


def _wish(request: Waiter) -> str:
    if request.on_revoke is None:
        return "go on"
    try:
        return request.on_revoke(request)
    except Exception:  # somebody else's code, and the control topic must be followed on
        LOG.exception("on_revoke of request %r failed: it is cancelled", request.id)
        return "cancel"


def _stop(request: Request, why: Overdue | Revoked) -> None:
    assert isinstance(request, Waiter)
    request.stopped = why
    if request._task is not None:
        request._task.cancel()
