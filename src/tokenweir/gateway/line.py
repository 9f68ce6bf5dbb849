"""Requests that wait for tokens: one line a tenant, first come, first served."""

from collections import deque
from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from tokenweir.gateway.request import Request
from tokenweir.gateway.subject import Subject

MOST_WAITING = 10_000  # requests of one pool


class Lines:
    """A bounded number of waiting requests of one pool.

    What another order needs is `add`, `drop`, `heads`, `overdue` and the lengths.
    """

    __slots__ = ("_count", "_deadlines", "_lines", "_most", "_number")

    def __init__(self, most: int) -> None:
        self._most = most
        self._lines: dict[Subject, deque[Request]] = {}
        self._deadlines: list[tuple[int, int, Request]] = []
        self._count = 0
        self._number = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Request]:
        for line in self._lines.values():
            yield from line

    def add(self, request: Request) -> bool:
        """Let it wait until `request.deadline_ms`; False when too many wait already."""
        if self._count >= self._most:
            return False
        self._lines.setdefault(request.subject, deque()).append(request)
        self._number += 1
        if len(self._deadlines) > 2 * self._most:
            self._tidy()
        heappush(self._deadlines, (request.deadline_ms, self._number, request))
        self._count += 1
        request.subject.waiting += 1
        return True

    def drop(self, request: Request) -> None:
        """It waits no longer."""
        line = self._lines[request.subject]
        if line[0] is request:
            line.popleft()
        else:
            line.remove(request)
        if not line:
            del self._lines[request.subject]
        self._count -= 1
        request.subject.waiting -= 1

    def heads(self) -> tuple[Request, ...]:
        """Who is next in each line."""
        return tuple(line[0] for line in self._lines.values())

    def next_of(self, subject: Subject) -> Request | None:
        """Who is next in one line."""
        line = self._lines.get(subject)
        return line[0] if line else None

    def overdue(self, now_ms: int) -> Iterator[Request]:
        """Those whose deadline has come; the caller drops each before it asks for the next."""
        while self._deadlines:
            deadline_ms, _, request = self._deadlines[0]
            if request.state == "waiting" and deadline_ms > now_ms:
                return
            heappop(self._deadlines)
            if request.state == "waiting":
                yield request

    def _tidy(self) -> None:
        waiting = [entry for entry in self._deadlines if entry[2].state == "waiting"]
        heapify(waiting)
        self._deadlines = waiting

    def first_deadline_ms(self) -> int | None:
        """When the first wait ends at the latest."""
        while self._deadlines and self._deadlines[0][2].state != "waiting":
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None
