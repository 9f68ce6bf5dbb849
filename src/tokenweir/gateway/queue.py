"""The requests of one tenant that wait: online before batch, users and priorities fairly."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from tokenweir.gateway.fair import AGED_PART, Fair
from tokenweir.gateway.request import Request
from tokenweir.gateway.subject import Subject

# Tenant (they differ among those that no spec knows), user, priority.
Key: TypeAlias = tuple[str, str, int]
WEIGHTS = {1: 1, 2: 2, 3: 4}  # of request priorities (Budget tutorial)
# Of users, by tenant and user, in millionths; who is not there weighs 1.
UserWeights: TypeAlias = Mapping[tuple[str, str], int]
ONE = 1_000_000
NEVER = 1 << 62


class Crowd:
    """What those who wait together ask for; milli-tokens."""

    __slots__ = ("cost", "largest", "last_ms")

    def __init__(self) -> None:
        self.cost = 0
        self.largest = 0  # of one request among those that have waited
        self.last_ms = 0  # the latest deadline among those

    def add(self, cost: int, largest: int, last_ms: int) -> None:
        """More wait."""
        self.cost += cost
        self.largest = max(self.largest, largest)
        self.last_ms = max(self.last_ms, last_ms)


NOBODY = Crowd()


class Queue:
    """Requests by (user, priority): first come, first served in each, fair among them.

    A flow weighs what its user weighs times what its priority weighs.
    """

    __slots__ = ("_fair", "_flows", "_users", "count")

    def __init__(self, aging_ms: int, users: UserWeights) -> None:
        self._users = users
        self._fair: Fair[Key] = Fair(aging_ms)
        self._flows: dict[Key, OrderedDict[Request, None]] = {}
        self.count = 0

    def __iter__(self) -> Iterator[Request]:
        for flow in self._flows.values():
            yield from flow

    def add(self, request: Request, now_ms: int) -> None:
        """Let it wait, last of its flow."""
        key = _key(request)
        flow = self._flows.get(key)
        if flow is None:
            flow = self._flows[key] = OrderedDict()
            self._fair.join(key, self._weight(key), now_ms)
        flow[request] = None
        self.count += 1

    def head(self, now_ms: int) -> Request | None:
        """Who is next."""
        key = self._fair.next(now_ms)
        return None if key is None else next(iter(self._flows[key]))

    def remove(self, request: Request, served_ms: int | None) -> None:
        """It waits no longer: it was served at `served_ms`, or went away unserved (None)."""
        key = _key(request)
        flow = self._flows[key]
        del flow[request]
        self.count -= 1
        if served_ms is not None:
            self._fair.served(key, request.cost, served_ms)
        if not flow:
            del self._flows[key]
            self._fair.leave(key)

    def reweigh(self) -> None:
        """The users' weights have changed."""
        for key in self._flows:
            self._fair.weigh(key, self._weight(key))

    def _weight(self, key: Key) -> int:
        tenant, user, priority = key
        return self._users.get((tenant, user), ONE) * WEIGHTS[priority]


class Line:
    """One tenant's queues.

    Batch gets what online leaves. A batch queue that has not been served for `aging_ms` goes
    before online, for one token of four at most: the bound is that of `Fair`, with one flow.
    """

    __slots__ = (
        "_aging_ms",
        "_batch",
        "_batch_ms",
        "_online",
        "_online_first",
        "armed_ms",
        "crowd",
        "due_ms",
        "subject",
    )

    def __init__(self, subject: Subject, aging_ms: int, users: UserWeights) -> None:
        self.subject = subject
        self.crowd = Crowd()
        self.due_ms = self.armed_ms = NEVER  # when to look at it; when `Lines` will
        self._aging_ms = aging_ms
        self._online = Queue(aging_ms, users)
        self._batch = Queue(aging_ms, users)
        self._batch_ms = 0  # when batch was last served, or began to wait
        self._online_first = 0  # cost to be served online before batch's age counts again

    def __len__(self) -> int:
        return self._online.count + self._batch.count

    def __iter__(self) -> Iterator[Request]:
        yield from self._online
        yield from self._batch

    def add(self, request: Request, now_ms: int) -> None:
        """Let it wait until its deadline."""
        if request.flow == "batch" and not self._batch.count:
            self._batch_ms, self._online_first = now_ms, 0
        self._queue(request).add(request, now_ms)
        self.crowd.add(request.cost, request.cost, request.deadline_ms)

    def reweigh(self) -> None:
        """The users' weights have changed."""
        self._online.reweigh()
        self._batch.reweigh()

    def head(self, now_ms: int) -> Request | None:
        """Who is next."""
        aged = self._online_first <= 0 and now_ms - self._batch_ms >= self._aging_ms
        if self._batch.count and (aged or not self._online.count):
            return self._batch.head(now_ms)
        return self._online.head(now_ms)

    def drop(self, request: Request) -> None:
        """It went away unserved."""
        self._queue(request).remove(request, None)
        self.crowd.cost -= request.cost

    def take(self, request: Request, now_ms: int) -> None:
        """It was served."""
        if request.flow == "online":
            self._online_first -= request.cost
        else:
            self._online_first = (AGED_PART - 1) * request.cost if self._online.count else 0
            self._batch_ms = now_ms
        self._queue(request).remove(request, now_ms)
        self.crowd.cost -= request.cost

    def _queue(self, request: Request) -> Queue:
        return self._batch if request.flow == "batch" else self._online


def _key(request: Request) -> Key:
    return request.tenant, request.user, request.priority
