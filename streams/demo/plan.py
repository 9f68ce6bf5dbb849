"""From what a person asks for to what is run."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from streams.demo.backend import SPEED
from streams.demo.pool import demo_pool, trace_pool
from streams.demo.run import Play
from streams.demo.trace import read_traces
from streams.demo.workload import afternoon, phase_at
from tokenweir.errors import BadInput

DURATION_S = 60.0


@dataclass(frozen=True, slots=True)
class Wish:
    """What a person asks for; None means that it is left to us."""

    capacity: int | None  # charged tokens/s
    duration_s: float | None
    forever: bool
    traces: Sequence[Path]  # none: the made-up afternoon
    speed: float | None  # of the trace
    seed: int


def plan(wish: Wish, now: datetime) -> Play:
    """What to run; the pool's name has the time in it, so that runs do not mix.

    Raises `BadInput` for options that do not go together and for a trace that cannot be read.
    """
    if wish.traces and wish.duration_s is not None:
        raise BadInput("--duration is for the made-up load: a trace ends by itself (see --speed)")
    if wish.speed is not None and not wish.traces:
        raise BadInput("--speed is for a trace: name one with --trace, or leave it out")
    stamp = now.astimezone(UTC).strftime("%y%m%d-%H%M%S")
    return _trace(wish, f"trace-{stamp}") if wish.traces else _afternoon(wish, f"chat-{stamp}")


def _afternoon(wish: Wish, pool: str) -> Play:
    length_s = wish.duration_s or DURATION_S
    return Play(
        spec=demo_pool(pool, wish.capacity),
        arrivals=afternoon(wish.seed, length_s),
        length_s=length_s,
        backend_speed=SPEED,
        forever=wish.forever,
        visited=True,
        phase=lambda part: phase_at(part).title,
    )


def _trace(wish: Wish, pool: str) -> Play:
    speed = wish.speed or 1.0
    arrivals = read_traces(wish.traces, speed)
    if not arrivals:
        raise BadInput(f"{', '.join(map(str, wish.traces))}: there is no request in it")
    return Play(
        spec=trace_pool(pool, arrivals, wish.capacity),
        arrivals=arrivals,
        length_s=arrivals[-1].at_us / 1e6 + 1,
        backend_speed=max(speed, 1.0),
        forever=wish.forever,
        visited=False,
        phase=lambda part: f"{len(arrivals):,} requests at {speed:g} times their speed",
    )
