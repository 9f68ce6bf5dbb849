"""What Tokenweir is compared with: the same load before the same backend, another order.

`slots` are the sequences that the whole pool can run. None of these refuses: who may not go waits.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import cycle

from simpy import Environment

from tokenweir.sim.after import after
from tokenweir.sim.gpu import GpuPool
from tokenweir.sim.job import Job


class NoControl:
    """Everything goes to the backend at once, and waits there, first come first served."""

    def __init__(self, env: Environment, gpu: GpuPool) -> None:
        self._env = env
        self._gpu = gpu

    def ask(self, job: Job) -> None:
        """Hand it on."""
        job.attempts += 1
        job.sent = self._env.now
        self._gpu.submit(job)

    def through(self, job: Job) -> None:
        """Nothing was held."""


class StaticSplit(NoControl):
    """Each tenant owns its part of the slots, whether it uses them or not."""

    def __init__(self, env: Environment, gpu: GpuPool, limits: Mapping[str, int]) -> None:
        super().__init__(env, gpu)
        self._free = dict(limits)
        self._waiting: dict[str, deque[Job]] = {name: deque() for name in limits}

    def ask(self, job: Job) -> None:
        """Take one of the tenant's own slots, or wait for one."""
        self._waiting[job.tenant].append(job)
        self._move(job.tenant)

    def through(self, job: Job) -> None:
        """A slot of its tenant is free."""
        self._free[job.tenant] += 1
        self._move(job.tenant)

    def _move(self, tenant: str) -> None:
        while self._free[tenant] and self._waiting[tenant]:
            self._free[tenant] -= 1
            super().ask(self._waiting[tenant].popleft())


class Turns(NoControl):
    """A free slot goes to the tenant whose turn it is. One that has no request keeps it IDLE until
    a request comes or `hold_ms` are over (the article's time-out); then it goes to the next.
    """

    def __init__(
        self, env: Environment, gpu: GpuPool, slots: int, order: Sequence[str], hold_ms: float
    ) -> None:
        super().__init__(env, gpu)
        self._order = cycle(order)
        self._hold_ms = hold_ms
        self._waiting: dict[str, deque[Job]] = {name: deque() for name in order}
        self._idle: dict[str, deque[int]] = {name: deque() for name in order}  # by number
        self._given = 0
        for _ in range(slots):
            self._give()

    def ask(self, job: Job) -> None:
        """Take a slot that is idle for its tenant, or wait for a turn."""
        if self._idle[job.tenant]:
            self._idle[job.tenant].popleft()
            super().ask(job)
        else:
            self._waiting[job.tenant].append(job)

    def through(self, job: Job) -> None:
        """A slot is free."""
        self._give()

    def _give(self) -> None:
        tenant = next(self._order)
        if self._waiting[tenant]:
            super().ask(self._waiting[tenant].popleft())
            return
        self._given += 1
        self._idle[tenant].append(self._given)
        after(self._env, self._hold_ms, partial(self._take_back, tenant, self._given))

    def _take_back(self, tenant: str, number: int) -> None:
        if number in self._idle[tenant]:
            self._idle[tenant].remove(number)
            self._give()


def split(slots: int, weights: Mapping[str, int]) -> dict[str, int]:
    """One slot each, and the others by weight: the rest by largest remainder, ties by name."""
    others = max(slots - len(weights), 0)
    total = sum(weights.values())
    parts = {name: 1 + others * weight // total for name, weight in weights.items()}
    by_rest = sorted(weights, key=lambda name: (-(others * weights[name] % total), name))
    for name in by_rest[: max(slots - sum(parts.values()), 0)]:
        parts[name] += 1
    return parts


def turns(weights: Mapping[str, int]) -> list[str]:
    """An order in which each tenant comes as often as its weight says, well spread."""
    places = ((at + 0.5) / weight for name, weight in weights.items() for at in range(weight))
    names = (name for name, weight in weights.items() for _ in range(weight))
    return [name for _, name in sorted(zip(places, names, strict=True))]
