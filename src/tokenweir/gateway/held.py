"""What a request's owner says of its use, whichever shell it was asked from."""

import asyncio

from tokenweir.errors import BadInput
from tokenweir.gateway import ledger, streams
from tokenweir.gateway.charge import estimate
from tokenweir.gateway.lane import Lane, Waiter
from tokenweir.gateway.reasons import AlreadyEnded
from tokenweir.gateway.request import tokens


class Held(Waiter):
    """A request that may be admitted, and what it used."""

    __slots__ = ("_lane", "actions")

    _lane: Lane
    actions: tuple[str, ...]  # what the degrade ladder did to it, as an adapter says it

    @property
    def suspended(self) -> bool:
        """Its entitlement is revoked: it must not go on before it is resumed."""
        return self.state == "suspended"

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
        if self.state not in ("admitted", "suspended"):
            raise AlreadyEnded(self.id, self.status)
        ledger.cancel(self._lane.gate, self, self._lane.clock(), reason)
        self._lane.arm()

    def abandon(self) -> None:
        """The caller has gone: a wait ends at once, and who waits gets `Refused` (`abandoned`)."""
        if self.state != "waiting":
            return
        self._lane.gate.abandon(self, self._lane.clock())
        self._lane.arm()
        self.tell()

    def promote(self, priority: int) -> None:
        """Wait on with another priority: 1, 2 or 3."""
        if priority not in (1, 2, 3):
            raise BadInput(f"priority is {priority!r}; allowed are 1, 2 and 3")
        self._lane.gate.promote(self, priority, self._lane.clock())
        self._lane.arm()

    def _leave(self, kind: type[BaseException] | None) -> None:
        """Its block has ended, and nobody has settled it."""
        gate, now_ms = self._lane.gate, self._lane.clock()
        if self.state == "suspended":
            gate.revoke(self, now_ms)
        elif kind is None:
            ledger.leave(gate, self, now_ms)
        elif issubclass(kind, asyncio.CancelledError):
            ledger.leave(gate, self, now_ms, "cancelled", False, "cancelled")
        else:
            ledger.leave(gate, self, now_ms, "done", True, kind.__name__)
        self._lane.arm()
