"""What every lane does: the same requests of the same tenants, in the same order."""

import random
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

TENANTS = 20_000
SEED = 7


@dataclass(frozen=True, slots=True)
class Order:
    """One request: what is charged for it at first, and what it used."""

    tenant: str
    estimate: int
    used: int


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one turn of a lane, in µs a request; `aside_us` is work between requests, spread."""

    median_us: float
    p99_us: float
    aside_us: float = 0.0


def tenants() -> list[str]:
    """All tenants that each limiter knows before it is measured."""
    return [f"tenant-{number:05}" for number in range(TENANTS)]


def orders(count: int) -> list[Order]:
    """So many requests of random tenants, with a fixed seed."""
    draw, names = random.Random(SEED), tenants()
    return [
        Order(draw.choice(names), estimate := draw.randrange(200, 4000), draw.randrange(estimate))
        for _ in range(count)
    ]


def timed(work: Callable[[Order], object], batch: Sequence[Order]) -> "array[int]":
    """How long the work took for each request, in ns."""
    read, taken = time.perf_counter_ns, array("q")
    for order in batch:
        began = read()
        work(order)
        taken.append(read() - began)
    return taken


def figures(taken: "array[int]", aside_ns: int = 0) -> Figures:
    """Median and p99 of a turn."""
    ordered = sorted(taken)
    count = len(ordered)
    return Figures(
        ordered[count // 2] / 1000, ordered[count * 99 // 100] / 1000, aside_ns / count / 1000
    )
