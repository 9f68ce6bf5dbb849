"""What a gateway developer holds while a request runs in an event loop."""

import asyncio
from types import TracebackType

from tokenweir.gateway.held import Held
from tokenweir.gateway.reasons import AlreadyEnded


class Call(Held):
    """One request: `async with gateway.request(…) as call`. Entering it admits, waits or raises
    `Refused`; leaving it without `settle` or `cancel` leaves a marked estimate.
    """

    __slots__ = ()

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
        if self.state in ("admitted", "suspended"):
            self._leave(kind)
        elif self.stopped is not None and kind is asyncio.CancelledError and task is not None:
            task.uncancel()
            raise self.stopped from error

    async def resumed(self) -> None:
        """Wait until it is not suspended; call it between two steps of work that can pause.

        Raises `AlreadyEnded` when it was ended meanwhile.
        """
        while self.state == "suspended":
            await self._lane.rest(self)
        if self.state != "admitted":
            raise self.stopped or AlreadyEnded(self.id, self.status)
