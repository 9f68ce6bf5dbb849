"""Places in virtual time that refused requests were promised, so that each is promised another."""

from collections import deque

GRACE_MS = 2_000  # who comes later than this after its time has lost its place
GUESS_MS = 500  # how far two guesses of one moment may be apart
GRAIN_MS = 100  # places closer than this are kept as one
MOST = 4_096  # places kept apart; further ones join the last


class Bookings:
    """What one bucket's refused requests will ask for, and from when on; milli-tokens.

    Nothing is reserved: whoever is there when tokens are takes them, and takes a place that is
    due with them. So the promises are exact when all come as told, and no-shows cost nothing.
    """

    __slots__ = ("_places", "cost", "end_ms")

    def __init__(self) -> None:
        self._places: deque[list[int]] = deque()  # [from own ms on, cost]
        self.cost = 0
        self.end_ms = 0  # when the last place's tokens will have flowed in

    def after(self, from_ms: int) -> int:
        """A moment for the next place: `from_ms`, or the last one's end if that is just after it.

        Who of those that wait is served last, and overdraws, is a guess: places must not overlap
        where guesses differ.
        """
        return self.end_ms if from_ms < self.end_ms <= from_ms + GUESS_MS else from_ms

    def book(self, from_ms: int, cost: int, rate: int) -> None:
        """A refused request was told to come at `from_ms`; `rate` is in milli-tokens/s."""
        self.end_ms = from_ms + cost * 1000 // max(rate, 1)
        places = self._places
        if places and (from_ms < places[-1][0] + GRAIN_MS or len(places) >= MOST):
            places[-1][1] += cost
        else:
            places.append([from_ms, cost])
        self.cost += cost

    def claim(self, cost: int, now_ms: int) -> None:
        """A request of this cost went in: places that are due are used up by it."""
        places = self._places
        while places and cost > 0 and places[0][0] <= now_ms:
            taken = min(cost, places[0][1])
            places[0][1] -= taken
            self.cost -= taken
            cost -= taken
            if not places[0][1]:
                places.popleft()

    def ahead(self, now_ms: int) -> int:
        """What those will ask for who were promised a place and may still come."""
        places = self._places
        while places and places[0][0] + GRACE_MS < now_ms:
            self.cost -= places.popleft()[1]
        return self.cost
