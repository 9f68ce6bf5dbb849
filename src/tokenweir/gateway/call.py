"""What a gateway developer holds while a request runs."""

import asyncio
from types import TracebackType

from tokenweir.errors import BadInput
from tokenweir.gateway import ledger, streams
from tokenweir.gateway.charge import estimate
from tokenweir.gateway.lane import Lane, Waiter
from tokenweir.gateway.reasons import AlreadyEnded, Overdue
from tokenweir.gateway.request import tokens


class Call(Waiter):
    """One request: `async with gateway.request(…) as call`. Entering it admits, waits or raises
    `Refused`; leaving it without `settle` or `cancel` leaves a marked estimate.
    """

    __slots__ = ("_lane", "actions")

    _lane: Lane
    actions: tuple[str, ...]  # what the degrade ladder did to it, as an adapter says it

    async def __aenter__(self) -> "Call":
        """Ask for admission; raises `Refused`."""
        lane = self._lane
        gate = lane.gate
        gate.ask(self, lane.clock())
        if gate.hurry:
            lane.hurry()
        if self.state == "waiting":
            await lane.wait(self)
        if self.state != "admitted":
            raise lane.refused(self)
        self._task = asyncio.current_task()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the request if nobody has: its usage is then an estimate, and marked as one."""
        task, self._task = self._task, None
        if self.state == "admitted":
            self._leave(kind)
        elif self.overdue and kind is asyncio.CancelledError and task is not None:
            task.uncancel()
            longest_s = self._lane.gate.longest_request_ms / 1000
            raise Overdue(f"request {self.id!r} ran longer than {longest_s:g} s") from error

    def produced(self, tokens_out: int = 0, *, uncached: int = 0, cached: int = 0) -> None:
        """Say what a stream has produced since the last call: the next report tells it (T6)."""
        streams.produce(
            self._lane.gate,
            self,
            tokens("uncached", uncached),
            tokens("cached", cached),
            tokens("tokens_out", tokens_out),
        )

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
        """Replace the estimate with what was used, in tokens, and end the request.

        0 is 0; None says that the backend gave no figure, and leaves a marked estimate of it.
        `cache_write` is the part of `uncached` that was written to a cache. `estimated` marks
        figures that are the caller's own estimate, `cancelled` a request that was broken off.
        Raises `AlreadyEnded` the second time.
        """
        lane = self._lane
        if tokens("cache_write", cache_write) > tokens("uncached", uncached or 0):
            raise BadInput(f"cache_write is {cache_write}; it is part of uncached ({uncached})")
        tokens("cached", cached)
        tokens("out", out or 0)
        estimated = estimated or uncached is None or out is None
        if uncached is None or out is None:
            uncached, cached, out = estimate(lane.gate, self, uncached, cached, out)
        ledger.settle(
            lane.gate,
            self,
            lane.clock(),
            uncached,
            cached,
            out,
            cache_write,
            "cancelled" if cancelled else "done",
            estimated,
            error,
            reason,
        )
        if lane.gate.next_ms is not None:
            lane.arm()

    def cancel(self, reason: str = "") -> None:
        """Return the estimate: nothing was used but what `produced` has said."""
        if self.state != "admitted":
            raise AlreadyEnded(self.id, self.status)
        ledger.cancel(self._lane.gate, self, self._lane.clock(), reason)
        self._lane.arm()

    def abandon(self) -> None:
        """The caller has gone: a wait ends at once, and who waits gets `Refused` (`abandoned`)."""
        if self.state != "waiting":
            return
        lane = self._lane
        lane.gate.abandon(self, lane.clock())
        lane.arm()
        if not self._future.done():
            self._future.set_result(None)

    def _leave(self, kind: type[BaseException] | None) -> None:
        gate, now_ms = self._lane.gate, self._lane.clock()
        if kind is None:
            ledger.leave(gate, self, now_ms)
        elif issubclass(kind, asyncio.CancelledError):
            ledger.leave(gate, self, now_ms, "cancelled", False, "cancelled")
        else:
            ledger.leave(gate, self, now_ms, "done", True, kind.__name__)
        self._lane.arm()
