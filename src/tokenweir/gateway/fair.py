"""Start-time fair queueing: which of many flows is next to spend from one stream of tokens.

A flow's share while it waits is S_i = w_i·B/Σw (Budget tutorial). A request begins at the virtual
time S = max(V, F of its predecessor), and F = S + cost/w; the smallest S is next, and V is the S
of what was served last. So what two waiting flows get, each divided by its weight, never differs
by more than one request of each. Every step is O(log n).
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

SCALE = 10**15  # of virtual time: what a weight that does not divide it loses is nothing
AGED_PART = 4  # of so many tokens one goes by age at most
SPARE = 64  # finished flows and dead entries that are not worth a sweep

K = TypeVar("K", bound=Hashable)


class _Flow(Generic[K]):
    __slots__ = ("key", "number", "since_ms", "start", "weight")

    def __init__(self, key: K) -> None:
        self.key = key
        self.weight = 1
        self.start = 0  # virtual time at which its next request begins
        self.since_ms = 0  # when it began to wait, or was last served
        self.number = 0  # of its entry in the heap; 0: it does not wait


class Fair(Generic[K]):
    """The flows that wait, in fair order.

    Aging: a flow that has not been served for `aging_ms` is next, whatever its weight; three
    tokens of four stay in fair order. With k such flows before it, requests of at most M tokens
    and B tokens/s, it is served within aging_ms + 5·(k + 1)·M/B.
    """

    __slots__ = (
        "_aging_ms",
        "_fair_first",
        "_flows",
        "_heap",
        "_number",
        "_sweep",
        "_virtual",
        "_waiting",
    )

    def __init__(self, aging_ms: int) -> None:
        self._aging_ms = aging_ms
        self._virtual = 0
        self._flows: dict[K, _Flow[K]] = {}
        self._waiting: OrderedDict[K, _Flow[K]] = OrderedDict()  # longest unserved first
        self._heap: list[tuple[int, int, _Flow[K]]] = []
        self._number = 0
        self._fair_first = 0  # cost to be served in fair order before age counts again
        self._sweep = SPARE

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, key: object) -> bool:
        return key in self._waiting

    def __iter__(self) -> Iterator[K]:
        return iter(self._waiting)

    def join(self, key: K, weight: int, now_ms: int) -> None:
        """A flow begins to wait."""
        flow = self._flows.get(key)
        if flow is None:
            flow = self._flows[key] = _Flow(key)
        flow.weight, flow.since_ms = weight, now_ms
        flow.start = max(flow.start, self._virtual)
        self._waiting[key] = flow
        self._push(flow)

    def weigh(self, key: K, weight: int) -> None:
        """From its next request on this flow weighs this."""
        self._flows[key].weight = weight

    def next(self, now_ms: int) -> K | None:
        """The flow whose turn it is; None when none waits."""
        if not self._waiting:
            return None
        if self._fair_first <= 0:
            key, flow = next(iter(self._waiting.items()))
            if now_ms - flow.since_ms >= self._aging_ms:
                return key
        return self._top().key

    def served(self, key: K, cost: int, now_ms: int) -> None:
        """A request of this flow went; it waits on with its next."""
        flow = self._waiting[key]
        if flow is self._top():
            self._virtual = flow.start
            self._fair_first -= cost
        else:
            self._fair_first = (AGED_PART - 1) * cost
        flow.start += cost * SCALE // flow.weight
        flow.since_ms = now_ms
        self._waiting.move_to_end(key)
        self._push(flow)

    def leave(self, key: K) -> None:
        """Nothing of this flow waits any more; what it was served is remembered."""
        self._waiting.pop(key).number = 0
        if not self._waiting:
            self._flows.clear()
            self._heap.clear()
            self._virtual = self._fair_first = 0
        elif len(self._flows) > self._sweep:
            self._forget()

    def _top(self) -> _Flow[K]:
        heap = self._heap
        while heap[0][1] != heap[0][2].number:
            heappop(heap)
        return heap[0][2]

    def _push(self, flow: _Flow[K]) -> None:
        self._number += 1
        flow.number = self._number
        heappush(self._heap, (flow.start, flow.number, flow))
        if len(self._heap) > 2 * len(self._waiting) + SPARE:
            self._heap = [entry for entry in self._heap if entry[1] == entry[2].number]
            heapify(self._heap)

    def _forget(self) -> None:
        """Drop the flows that would begin now anyway."""
        self._flows = {
            key: flow
            for key, flow in self._flows.items()
            if flow.number or flow.start > self._virtual
        }
        self._sweep = 2 * len(self._flows) + SPARE
