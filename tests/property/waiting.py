"""A gate in virtual time whose requests run and end: nothing sleeps, and nothing is left over.

Own time in ms; a request that is admitted is settled with what it asked for, `runs_ms` later.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

from tests.unit.gateway.made import EPOCH_MS, POOL, Row, class_states, give, settle
from tokenweir.gateway.pool import PoolGate
from tokenweir.gateway.request import Request

PATIENT_MS = 10_000_000


def patient(**waits_ms: int) -> dict[str, object]:
    """The changes of a decision whose classes wait so long."""
    waits = {name: {"longest_wait_ms": ms} for name, ms in waits_ms.items()}
    return {"classes": class_states(**waits)}


def gate_with(*rows: Row, most_waiting: int = 100_000, **leased: object) -> PoolGate:
    """A gate that obeys leases which never end, from own time 0 on."""
    gate = PoolGate(POOL, "edge", most_waiting=most_waiting)
    gate.acknowledged(EPOCH_MS, 0, 0)
    forever: dict[str, object] = {"expires_ms": 10**12, "floor_expires_ms": 10**12}
    give(gate, 0, *rows, **{**forever, **leased})  # type: ignore[arg-type]
    return gate


@dataclass
class Run:
    """Plays arrivals, and lets time pass as far as the gate wants to be served."""

    gate: PoolGate
    runs_ms: int = 0
    now_ms: int = 0
    ended: list[Request] = field(default_factory=list)  # admitted or refused, in this order
    served: dict[str, int] = field(default_factory=dict)  # tokens by user
    on_end: Callable[[Request], None] = lambda request: None
    _events: list[tuple[int, int, Request, bool]] = field(default_factory=list)
    _number: "count[int]" = field(default_factory=count)

    def arrive(self, at_ms: int, request: Request) -> None:
        heappush(self._events, (at_ms, next(self._number), request, True))

    def arrive_all(self, at_ms: int, requests: Iterable[Request]) -> None:
        for request in requests:
            self.arrive(at_ms, request)

    def until(self, end_ms: int) -> None:
        while (moment := self._next()) <= end_ms:
            self.now_ms = max(self.now_ms, moment)
            while self._events and self._events[0][0] <= self.now_ms:
                _, _, request, asks = heappop(self._events)
                if asks:
                    self.gate.ask(request, self.now_ms)
                    if request.state != "waiting":
                        self._end(request)
                else:
                    settle(self.gate, request, self.now_ms, request.cost // 1000)
            if self.gate.next_ms is not None and self.gate.next_ms <= self.now_ms:
                for request in self.gate.serve(self.now_ms):
                    self._end(request)
        self.now_ms = end_ms

    def _next(self) -> int:
        moments = [event[0] for event in self._events[:1]]
        if self.gate.next_ms is not None:
            moments.append(self.gate.next_ms)
        return min(moments, default=1 << 62)

    def _end(self, request: Request) -> None:
        self.ended.append(request)
        if request.state == "admitted":
            name = request.user
            self.served[name] = self.served.get(name, 0) + request.cost // 1000
            end_ms = self.now_ms + self.runs_ms
            heappush(self._events, (end_ms, next(self._number), request, False))
        self.on_end(request)
