"""All requests of one pool that wait: bounded, with deadlines, low classes dropped first."""

from collections import OrderedDict
from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from tokenweir.gateway.fair import SPARE, Fair
from tokenweir.gateway.queue import NEVER, Crowd, Line, UserWeights
from tokenweir.gateway.request import Request
from tokenweir.gateway.subject import Subject

MOST_WAITING = 10_000  # requests of one pool
AGING_MS = 5_000  # who was not served for so long is next
# Weights of the classes at the starter pot, lowest first, in tenths: 0.1, 1, 100, 500, 1000.
# Decisions do not carry the weights; a pot is small, and the plane weighs all else.
POT_WEIGHTS = (1, 10, 1_000, 5_000, 10_000)


class Lines:
    """A line a tenant, since tenants never share lease tokens (PROTOCOL L10).

    Tenants without a lease compete for the starter pot, by class weight. Lines are looked at when
    they are due, so a step costs O(log n) of what waits.
    """

    __slots__ = (
        "_deadlines",
        "_due",
        "_levels",
        "_lines",
        "_most",
        "_number",
        "_users",
        "aging_ms",
        "count",
        "pot",
        "pot_crowd",
        "pot_due_ms",
    )

    def __init__(self, most: int, users: UserWeights, aging_ms: int = AGING_MS) -> None:
        self._users = users
        self.aging_ms = aging_ms
        self.count = 0
        self.pot: Fair[Subject] = Fair(aging_ms)
        self.pot_due_ms = NEVER
        self.pot_crowd = Crowd()  # those that compete for the pot
        self._most = most
        self._lines: dict[Subject, Line] = {}
        # By what is dropped first: class, then batch before online, then priority.
        self._levels: dict[int, OrderedDict[Request, None]] = {}
        self._deadlines: list[tuple[int, int, Request]] = []
        self._due: list[tuple[int, int, Line]] = []
        self._number = 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Request]:
        for line in self._lines.values():
            yield from line

    @property
    def full(self) -> bool:
        """As many wait as may."""
        return self.count >= self._most

    def of(self, subject: Subject) -> Line | None:
        """The line of a tenant; None when nobody of it waits."""
        return self._lines.get(subject)

    def lowest(self, request: Request) -> Request | None:
        """The newest of the lowest that wait, if it is lower than this newcomer."""
        level = min(self._levels, default=NEVER)
        return next(reversed(self._levels[level])) if level < _level(request) else None

    def add(self, request: Request, now_ms: int) -> Line:
        """Let it wait until `request.deadline_ms`; its state is waiting, and there is room."""
        subject = request.subject
        line = self._lines.get(subject)
        if line is None:
            line = self._lines[subject] = Line(subject, self.aging_ms, self._users)
        line.add(request, now_ms)
        request.level = _level(request)
        self._levels.setdefault(request.level, OrderedDict())[request] = None
        self._number += 1
        heappush(self._deadlines, (request.deadline_ms, self._number, request))
        self.count += 1
        if len(self._deadlines) > 2 * self.count + SPARE:
            self._deadlines = [e for e in self._deadlines if e[2].state == "waiting"]
            heapify(self._deadlines)
        subject.waiting += 1
        if subject in self.pot:
            self.pot_crowd.add(request.cost, request.cost, request.deadline_ms)
        return line

    def prolong(self, request: Request, deadline_ms: int) -> None:
        """Let it wait until this later deadline."""
        request.deadline_ms = deadline_ms
        self._number += 1
        heappush(self._deadlines, (deadline_ms, self._number, request))
        crowds = (self._lines[request.subject].crowd, self.pot_crowd)
        for crowd in crowds[: 1 + (request.subject in self.pot)]:
            crowd.last_ms = max(crowd.last_ms, deadline_ms)

    def drop(self, request: Request) -> None:
        """It went away unserved."""
        self._lines[request.subject].drop(request)
        self._gone(request)

    def take(self, request: Request, now_ms: int) -> None:
        """It was served."""
        subject = request.subject
        self._lines[subject].take(request, now_ms)
        if subject in self.pot:
            self.pot.served(subject, request.cost, now_ms)
        self._gone(request)

    def compete(self, line: Line, now_ms: int) -> None:
        """This tenant's line is for the pot."""
        if line.subject not in self.pot:
            self.pot.join(line.subject, POT_WEIGHTS[line.subject.rank], now_ms)
            self.pot_crowd.add(line.crowd.cost, line.crowd.largest, line.crowd.last_ms)

    def withdraw(self, subject: Subject) -> None:
        """This tenant's line is not for the pot now."""
        if subject in self.pot:
            self.pot.leave(subject)
            self.pot_crowd.cost -= self._lines[subject].crowd.cost
            if not len(self.pot):
                self.pot_crowd = Crowd()

    def promote(self, request: Request, priority: int, now_ms: int) -> None:
        """Go on waiting with another priority."""
        line = self._lines[request.subject]
        line.drop(request)
        request.priority = priority
        line.add(request, now_ms)
        self.due_at(line, now_ms)

    def reweigh(self) -> None:
        """The users' weights have changed."""
        for line in self._lines.values():
            line.reweigh()

    def freed(self, request: Request, now_ms: int) -> bool:
        """A request has ended; True when somebody may have a chance now."""
        self.touch(request.subject, now_ms)
        if request.pot_share is not None and len(self.pot):
            self.pot_due_ms = now_ms
            return True
        return request.subject.waiting > 0

    def touch(self, subject: Subject, now_ms: int) -> None:
        """A tenant's line may have a chance now."""
        line = self._lines.get(subject)
        if line is not None:
            self.due_at(line, now_ms)

    def touch_all(self, now_ms: int) -> None:
        """Every line may have a chance now."""
        for line in self._lines.values():
            self.due_at(line, now_ms)

    def due_at(self, line: Line, due_ms: int) -> None:
        """Look at this line then, and not before."""
        line.due_ms = due_ms
        if due_ms < line.armed_ms:
            line.armed_ms = due_ms
            self._number += 1
            heappush(self._due, (due_ms, self._number, line))
            if len(self._due) > 2 * len(self._lines) + SPARE:
                self._due = [e for e in self._due if e[0] == e[2].armed_ms and len(e[2])]
                heapify(self._due)

    def due(self, now_ms: int) -> Iterator[Line]:
        """The lines to look at now; each needs a new `due_at`."""
        while self._due and self._due[0][0] <= now_ms:
            armed_ms, _, line = heappop(self._due)
            if armed_ms != line.armed_ms:
                continue  # it was armed anew, for earlier
            line.armed_ms = NEVER
            if line.due_ms > now_ms:
                self.due_at(line, line.due_ms)
            elif len(line):
                line.due_ms = NEVER
                yield line

    def overdue(self, now_ms: int) -> Iterator[Request]:
        """Those whose deadline has come; the caller drops or prolongs each before the next."""
        while self._deadlines:
            deadline_ms, _, request = self._deadlines[0]
            if request.state == "waiting" and deadline_ms > now_ms:
                return
            heappop(self._deadlines)
            if request.state == "waiting" and request.deadline_ms <= now_ms:
                yield request

    def next_ms(self) -> int | None:
        """When to look again: the first line that is due, the pot, or the first deadline."""
        while self._deadlines and self._deadlines[0][2].state != "waiting":
            heappop(self._deadlines)
        moments = [self.pot_due_ms]
        if self._due:
            moments.append(self._due[0][0])
        if self._deadlines:
            moments.append(self._deadlines[0][0])
        first = min(moments)
        return None if first >= NEVER else first

    def _gone(self, request: Request) -> None:
        subject = request.subject
        level = self._levels[request.level]
        del level[request]
        if not level:
            del self._levels[request.level]
        self.count -= 1
        subject.waiting -= 1
        if subject in self.pot:
            self.pot_crowd.cost -= request.cost
        line = self._lines[subject]
        if not len(line):
            self.withdraw(subject)
            line.due_ms = NEVER
            del self._lines[subject]


def _level(request: Request) -> int:
    return request.subject.rank * 6 + (request.flow == "online") * 3 + request.priority - 1
