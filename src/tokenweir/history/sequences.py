"""The last sequence of each gateway in each pool, as the control plane keeps it (R1)."""

from collections.abc import Iterable
from dataclasses import dataclass, field

KEPT_MS = 24 * 3_600_000  # of pool time


@dataclass(frozen=True, slots=True)
class Last:
    """The newest report of one gateway in one pool, and when it was appended."""

    sequence: int
    seen_ms: int


@dataclass(slots=True)
class Sequences:
    """Which report is a repeat; one for each partition, since a pool lies in one."""

    last: dict[tuple[str, str], Last] = field(default_factory=dict)  # by pool, gateway
    clock_ms: dict[str, int] = field(default_factory=dict)  # of each pool (T1)

    def hear(self, pool: str, append_ms: int) -> int:
        """Any readable message moves its pool's clock, never backwards; returns the clock."""
        self.clock_ms[pool] = max(append_ms, self.clock_ms.get(pool, 0))
        return self.clock_ms[pool]

    def take(self, pool: str, gateway: str, sequence: int, append_ms: int) -> int | None:
        """How many reports are missing before this one; None when it is a repeat."""
        now_ms = self.hear(pool, append_ms)
        last = self.last.get((pool, gateway), Last(0, now_ms))
        known = last.sequence if now_ms - last.seen_ms <= KEPT_MS else 0
        if sequence <= known:
            return None
        self.last[pool, gateway] = Last(sequence, now_ms)
        return sequence - known - 1


def restored(
    rows: Iterable[tuple[str, str, int, int]], clocks: Iterable[tuple[str, int]]
) -> Sequences:
    """From what the table `records` holds: (pool, gateway, sequence, seen_ms), (pool, clock_ms)."""
    last = {(pool, gateway): Last(sequence, seen_ms) for pool, gateway, sequence, seen_ms in rows}
    return Sequences(last, dict(clocks))
