"""What time it is in a pool, as a gateway can know it (PROTOCOL L6)."""

# An acknowledgement that took longer tells nothing: pool time would be early by as much, and stand
# still for as long, after a suspend with a report on its way. Longer than any try to send.
LONGEST_TRIP_MS = 10_000


class PoolClock:
    """The pool's time from acknowledgements: early, never late, never backwards.

    `now_ms` is the gateway's own monotonic clock; pool time is Unix ms of the broker's appends.
    """

    __slots__ = ("_latest_ms", "_lead_ms")

    def __init__(self) -> None:
        self._lead_ms: int | None = None  # pool time − own clock
        self._latest_ms = 0

    def acknowledged(self, append_ms: int, sent_ms: int, now_ms: int) -> None:
        """A report sent at `sent_ms` was appended at `append_ms`, as is known at `now_ms`.

        It was appended after it was sent, so reading on from the sending is early: a lease ends
        here before it ends anywhere else.
        """
        if now_ms - sent_ms > LONGEST_TRIP_MS:
            return
        self._lead_ms = append_ms - sent_ms
        self._latest_ms = max(self._latest_ms, append_ms)

    def decided(self, at_ms: int) -> None:
        """A decision was taken at this boundary: pool time is not behind it."""
        self._latest_ms = max(self._latest_ms, at_ms)

    def at(self, now_ms: int) -> int | None:
        """Pool time now; None before the first acknowledgement: then no lease is obeyed."""
        lead = self._lead_ms
        if lead is None:
            return None
        time_ms = now_ms + lead
        if time_ms > self._latest_ms:
            self._latest_ms = time_ms
        return self._latest_ms

    def seen(self, now_ms: int) -> int | None:
        """As `at`, and changes nothing: for other threads, which only look."""
        lead = self._lead_ms
        return None if lead is None else max(now_ms + lead, self._latest_ms)
