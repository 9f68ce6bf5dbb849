"""The demo's own load: an afternoon on a shared deployment, in a minute.

A product's assistant has a guarantee, a coding tool and an agent platform have elastic baselines,
and somebody starts an evaluation run that overloads the pool by 38 % (the overload of the Token
Pools paper's first experiment, arXiv 2603.00356). While it runs, the assistant has its rush hour.
Times are parts of the run, so that a longer run is the same story.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from streams.demo.arrivals import Arrival
from streams.demo.traffic import CHAT, CODE, LONG_CHAT, Traffic, lengths, times

USERS = 20  # a tenant


@dataclass(frozen=True, slots=True)
class Act:
    """A stretch of one tenant's traffic; `begin` and `end` are parts of the run."""

    tenant: str
    traffic: Traffic
    requests_per_s: float
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Phase:
    """What a spectator should look at, from `begin` (a part of the run) on."""

    begin: float
    title: str


# Means, in charged tokens/s with the weights of pool.yaml: the assistant 80 000 and in its rush
# 129 000, copilot 44 000 and 65 000, agents 28 000, evals 275 000; the pool does 320 000.
ACTS = (
    Act("assistant", CHAT, 40.0, 0.0, 1.0),
    Act("assistant", CHAT, 24.0, 0.5, 0.75),
    Act("copilot", CODE, 20.0, 0.0, 1.0),
    Act("copilot", CODE, 10.0, 0.5, 0.75),
    Act("agents", LONG_CHAT, 3.0, 0.0, 1.0),
    Act("evals", CHAT, 136.0, 0.2, 0.85),
)
PHASES = (
    Phase(0.0, "a calm afternoon"),
    Phase(0.2, "evals starts a large run"),
    Phase(0.5, "assistant and copilot have their rush hour, too"),
    Phase(0.75, "the rush is over, evals goes on"),
    Phase(0.85, "evals is done"),
)


def afternoon(seed: int, duration_s: float) -> tuple[Arrival, ...]:
    """The whole load, in order of time; the same for the same seed and duration."""
    acts = enumerate(ACTS)
    arrivals = [arrival for at, act in acts for arrival in _play(act, f"{seed}/{at}", duration_s)]
    return tuple(sorted(arrivals))


def phase_at(part: float) -> Phase:
    """The phase that a `part` of the run is in."""
    return next(phase for phase in reversed(PHASES) if phase.begin <= max(part, 0.0))


def _play(act: Act, seed: str, duration_s: float) -> Iterator[Arrival]:
    random = Random(seed)
    begin_s, length_s = act.begin * duration_s, (act.end - act.begin) * duration_s
    for at_s in times(act.traffic, act.requests_per_s, length_s, random):
        user = f"{act.tenant}-{random.randrange(USERS)}"
        at_us = round((begin_s + at_s) * 1e6)
        yield Arrival(at_us, act.tenant, user, *lengths(act.traffic, random))
