"""Tokens that flow in at a lease's rate (PROTOCOL L1, L5)."""

from tokenweir.gateway.bookings import Bookings


class Bucket:
    """Milli-tokens that flow in at `rate` up to `burst`; integers, time passed in.

    A level above 0 admits a request, whatever it costs, so the level may go below 0 by one
    request; what is owed is paid first. A bucket starts empty.
    """

    __slots__ = ("at_ms", "bookings", "burst", "carried", "epoch", "level", "rate", "rest")

    def __init__(self) -> None:
        self.at_ms = 0
        self.rate = 0  # milli-tokens/s
        self.burst = 0  # milli-tokens
        self.level = 0  # milli-tokens; below 0 is owed
        self.rest = 0  # what has flowed in and is less than a milli-token, in thousandths
        self.epoch = 0
        self.bookings: Bookings | None = None  # what refused requests were promised
        self.carried = 0  # what was owed when this epoch began; 0 or below

    def refill(self, now_ms: int) -> None:
        """Let the tokens in that have flowed since the last call. Time never runs backwards."""
        elapsed = now_ms - self.at_ms
        if elapsed <= 0:
            return
        gained = self.rate * elapsed + self.rest
        self.rest = gained % 1000
        level = self.level + gained // 1000
        self.level = level if level < self.burst else self.burst
        self.at_ms = now_ms

    def take(self, cost: int, now_ms: int) -> bool:
        """Let in what has flowed, and spend `cost` if the level is above 0."""
        elapsed = now_ms - self.at_ms
        if elapsed > 0:  # as `refill`, which a request has no time to call
            gained = self.rate * elapsed + self.rest
            self.rest = gained % 1000
            level = self.level + gained // 1000
            if level > self.burst:
                level = self.burst
            self.at_ms = now_ms
        else:
            level = self.level
        if level <= 0:
            self.level = level
            return False
        self.level = level - cost
        if self.bookings is not None:
            self.claim(cost, now_ms)
        return True

    def renew(self, now_ms: int, rate: int, burst: int) -> None:
        """Go on under new terms: the level stays, capped by the new burst (L5)."""
        self.refill(now_ms)
        self._set(rate, burst)
        self.level = min(self.level, self.burst)

    def restart(self, now_ms: int, rate: int, burst: int) -> None:
        """Begin again, empty, under new terms; what is owed stays owed (L5)."""
        self.refill(now_ms)
        self._set(rate, burst)
        self.level = self.carried = min(self.level, 0)
        self.rest = 0
        self.epoch += 1

    def put_back(self, amount: int, epoch: int) -> None:
        """Return what a hold of `epoch` did not use; below 0: take what it used beyond.

        Tokens of an earlier epoch mint none in this one: they only lessen what that epoch left
        owed.
        """
        if epoch != self.epoch and amount > 0:
            amount = min(amount, -self.carried)
            self.carried += amount
        level = self.level + amount
        self.level = level if level < self.burst else self.burst

    def ready_ms(self, ahead: int = 0) -> int | None:
        """Milliseconds after `at_ms` until the level is above 0, with `ahead` spent before.

        None when it never will be.
        """
        level = self.level - ahead
        if level > 0:
            return 0
        if self.rate <= 0:
            return None
        return -((self.rest - (1 - level) * 1000) // self.rate)

    def book(self, wait_ms: int, cost: int) -> None:
        """A request of this cost was promised to be admitted `wait_ms` after `at_ms`."""
        if self.bookings is None:
            self.bookings = Bookings()
        self.bookings.book(self.at_ms + wait_ms, cost, self.rate)

    def claim(self, cost: int, now_ms: int) -> None:
        """A request of this cost was admitted: of the promised places it takes what is due."""
        if self.bookings is not None:
            self.bookings.claim(cost, now_ms)
            if not self.bookings.cost:
                self.bookings = None

    def _set(self, rate: int, burst: int) -> None:
        self.rate = rate
        # Without room for one milli-token a bucket that flows would never admit.
        self.burst = max(burst, 1) if rate > 0 else 0
