"""Those who wait for a slot: the highest goes first, each waits until its deadline."""

from collections import Counter, OrderedDict
from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from tokenweir.gateway.inheritance import Holder
from tokenweir.gateway.slot import Want, less

SPARE = 64  # entries that are not worth tidying


class Wants:
    """A step costs O(log n) of those that wait."""

    __slots__ = ("_all", "_deadlines", "_number", "_order", "_own")

    def __init__(self) -> None:
        self._all: OrderedDict[Want, None] = OrderedDict()  # in the order of their asking
        self._order: list[tuple[int, int, int, Want]] = []  # by priority, then by asking
        self._own: Counter[int] = Counter()  # their own priorities
        self._deadlines: list[tuple[int, int, Want]] = []
        self._number = 0

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Want]:
        return iter(self._all)

    @property
    def highest_own(self) -> int:
        """The highest of their own priorities; 0: nobody waits."""
        return max(self._own, default=0)

    def add(self, want: Want) -> None:
        """Let it wait."""
        want.waits = True
        self._all[want] = None
        self._own[want.holder.own] += 1
        self._rank(want)
        heappush(self._deadlines, (want.deadline_ms, want.number, want))
        self._tidy()

    def forget(self, want: Want) -> None:
        """It waits no longer."""
        del self._all[want]
        less(self._own, want.holder.own)
        want.waits = False

    def first(self) -> Want | None:
        """Who is next."""
        while self._order:
            rank, _, _, want = self._order[0]
            if want.waits and rank == -want.holder.priority:
                return want
            heappop(self._order)
        return None

    def before(self, want: Want) -> int:
        """How many go before it."""
        rank = want.rank
        return sum(other.rank < rank for other in self._all)

    def reorder(self, holder: Holder) -> None:
        """A holder that waits has another priority."""
        for want in self._all:
            if want.holder is holder:
                self._rank(want)

    def overdue(self, now_ms: int) -> Iterator[Want]:
        """Those whose deadline has come; the caller forgets each before the next."""
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            want = heappop(self._deadlines)[2]
            if want.waits:
                yield want

    def deadline(self) -> int | None:
        """The first deadline."""
        while self._deadlines and not self._deadlines[0][2].waits:
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def _rank(self, want: Want) -> None:
        self._number += 1
        if not want.number:
            want.number = self._number
        heappush(self._order, (-want.holder.priority, want.number, self._number, want))

    def _tidy(self) -> None:
        """Forget entries of those that wait no longer, before they outnumber the others."""
        most = 2 * len(self._all) + SPARE
        if len(self._deadlines) > most:
            self._deadlines = [entry for entry in self._deadlines if entry[2].waits]
            heapify(self._deadlines)
        if len(self._order) > most:
            self._order = [entry for entry in self._order if entry[3].waits]
            heapify(self._order)
