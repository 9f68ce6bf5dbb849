"""A virtual GPU pool: replicas behind one queue, first come first served.

That is all the order there is without admission control.
"""

from collections import deque
from collections.abc import Callable

from simpy import Environment

from tokenweir.sim.engine import PROFILES, Engine, Profile
from tokenweir.sim.job import NEVER, Job

__all__ = ["PROFILES", "GpuPool", "Profile"]


class GpuPool:
    """Replicas behind one queue; `ended` is told of each job that is through."""

    def __init__(
        self, env: Environment, profile: Profile, replicas: int, ended: Callable[[Job], None]
    ) -> None:
        self.queue: deque[Job] = deque()
        self.longest_queue = 0  # since somebody set it to 0
        self._env = env
        self._profile = profile
        self._told = ended
        self._engines = [self._engine() for _ in range(replicas)]
        self._past_work_ms = 0.0
        self._past_time_ms = 0.0
        self._since = env.now

    @property
    def replicas(self) -> int:
        """How many there are now."""
        return len(self._engines)

    @property
    def running(self) -> int:
        """Jobs that hold a slot."""
        return sum(len(engine.running) for engine in self._engines)

    @property
    def work_ms(self) -> float:
        """What all replicas did so far, in ms of one with all slots in use."""
        return self._past_work_ms + sum(engine.work_ms for engine in self._engines)

    @property
    def time_ms(self) -> float:
        """ms of replicas that there were so far: what could have been done."""
        return self._past_time_ms + self.replicas * (self._env.now - self._since)

    def submit(self, job: Job) -> None:
        """Run a job, now or when there is room."""
        self.queue.append(job)
        self._dispatch()

    def stop(self, job: Job) -> None:
        """Take a job out, whether it runs or waits; it may be submitted again and go on."""
        if job.engine is not None:
            job.engine.remove(job)
            self._dispatch()
        elif job in self.queue:
            self.queue.remove(job)

    def resize(self, replicas: int) -> None:
        """Have so many from now on. What ran on a lost one starts again, first in the queue."""
        self._past_time_ms, self._since = self.time_ms, self._env.now
        while self.replicas > replicas:
            engine = self._engines.pop()
            for job in reversed(tuple(engine.running)):
                engine.remove(job)
                job.produced, job.first = 0.0, NEVER
                self.queue.appendleft(job)
            self._past_work_ms += engine.work_ms
        while self.replicas < replicas:
            self._engines.append(self._engine())
        self._dispatch()

    def _engine(self) -> Engine:
        return Engine(self._env, self._profile, self._ended)

    def _ended(self, job: Job) -> None:
        self._told(job)
        self._dispatch()

    def _dispatch(self) -> None:
        while self.queue:
            free = [engine for engine in self._engines if engine.fits(self.queue[0])]
            if not free:
                break
            min(free, key=Engine.load).add(self.queue.popleft())
        self.longest_queue = max(self.longest_queue, len(self.queue))
