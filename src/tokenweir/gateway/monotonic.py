"""The one place where the gateway reads a clock."""

import time

# A clock that counts suspend, where there is one (T5): macOS's monotonic clock does not stop.
_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_read = time.clock_gettime_ns


def boot_ms() -> int:
    """Milliseconds on a clock that never steps and counts the time a machine sleeps."""
    return _read(_CLOCK) // 1_000_000


def wall_ms() -> int:
    """Unix time in ms, which may jump: only for what outlives this process (T5)."""
    return time.time_ns() // 1_000_000


def left_ms(deadline_s: float) -> int:
    """Milliseconds until a moment on `time.monotonic()`, the clock of event loops; 0 when past."""
    return max(int((deadline_s - time.monotonic()) * 1000), 0)
