"""Requests before they are made: when, whose, how long. And the file that hands them on."""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, order=True)
class Arrival:
    """One request of the load, offered once whatever becomes of it."""

    at_us: int  # microseconds since the start of the load
    tenant: str
    user: str
    uncached: int
    cached: int
    out: int


def share(arrivals: Sequence[Arrival], gateway: int, gateways: int) -> Sequence[Arrival]:
    """What one gateway gets when the arrivals are dealt like cards."""
    return arrivals[gateway::gateways]


def write(path: Path, arrivals: Iterable[Arrival]) -> None:
    """Write arrivals as CSV, one a line, in their order."""
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(
            (a.at_us, a.tenant, a.user, a.uncached, a.cached, a.out) for a in arrivals
        )


def read(path: Path) -> list[Arrival]:
    """Read what `write` wrote."""
    with path.open(newline="") as file:
        return [
            Arrival(int(at_us), tenant, user, int(uncached), int(cached), int(out))
            for at_us, tenant, user, uncached, cached, out in csv.reader(file)
        ]
