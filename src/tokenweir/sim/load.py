"""What tenants send: when, and how long prompts and outputs are. Times are ms of virtual time."""

import csv
import gzip
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, log, sqrt
from pathlib import Path
from zlib import crc32

import numpy as np
from simpy import Environment
from simpy.events import Event

from tokenweir.errors import BadInput
from tokenweir.sim.after import after
from tokenweir.sim.job import Job
from tokenweir.sim.scenario import Lengths, Phase, Scenario, Trace, Workload

Process = Generator[Event, None, None]
Ask = Callable[[str, int, int, Callable[[Job, float], None]], None]
DRAWN = 1024  # numbers at a time at most: most of a crowd need few
PAUSE_MS = 100.0  # a client that was refused for good waits at least so long


@dataclass(frozen=True, slots=True)
class Segment:
    """A time with one rate (requests/s) or number of clients."""

    starts: float
    ends: float
    value: float


class Chance:
    """The random numbers of one workload: the same in every run of a seed."""

    def __init__(self, seed: int, name: str) -> None:
        self.rng = np.random.default_rng([seed, crc32(name.encode())])
        self._gaps = self._drawn(lambda count: self.rng.exponential(size=count))

    def gap(self, mean: float) -> float:
        """An exponential time."""
        return next(self._gaps) * mean

    def lengths(self, of: Lengths) -> Iterator[int]:
        """Token counts, for ever."""
        sigma = sqrt(log(1 + of.cv**2))
        mu = log(of.mean) - sigma**2 / 2

        def draw(count: int) -> np.ndarray:
            values = np.exp(self.rng.normal(mu, sigma, count)) if sigma else np.full(count, of.mean)
            return np.clip(np.rint(values), 1, of.most)

        return (int(value) for value in self._drawn(draw))

    def _drawn(self, draw: Callable[[int], np.ndarray]) -> Iterator[float]:
        count = 8
        while True:
            yield from draw(count).tolist()
            count = min(2 * count, DRAWN)


class Source:
    """One workload at work. It asks at `next_ms` again, not before; -inf: at any time."""

    def __init__(
        self, env: Environment, scenario: Scenario, name: str, workload: Workload, ask: Ask
    ) -> None:
        self.next_ms = -inf
        self._env = env
        self._name = name
        self._workload = workload
        self._ask = ask
        self._chance = Chance(scenario.seed, name)
        self._prompts = Chance(scenario.seed, f"{name}/prompt").lengths(workload.prompt)
        self._outputs = Chance(scenario.seed, f"{name}/output").lengths(workload.output)
        self._left = workload.count if workload.count is not None else inf
        self._segments = segments(scenario, workload, self._chance)
        self._clients = 0
        self._idle: list[int] = []
        if workload.arrivals == "closed":
            env.process(self._closed())
        elif workload.arrivals == "trace":
            env.process(self._traced())
        else:
            env.process(self._open())

    def _send(self, done: Callable[[Job, float], None]) -> bool:
        if self._left <= 0:
            self.next_ms = inf
            return False
        self._left -= 1
        self._ask(self._name, next(self._prompts), next(self._outputs), done)
        return True

    def _open(self) -> Process:
        for segment in self._segments:
            yield self._until(segment.starts)
            while segment.value and self._left:
                mean = 1000 / segment.value
                regular = self._workload.arrivals == "regular"
                gap = mean if regular else self._chance.gap(mean)
                if self._env.now + gap >= segment.ends:
                    break
                yield self._until(self._env.now + gap)
                self._send(_forget)
        self.next_ms = inf

    def _until(self, at: float) -> Event:
        self.next_ms = max(at, self._env.now)
        return self._env.timeout(self.next_ms - self._env.now)

    def _closed(self) -> Process:
        started = 0
        for segment in self._segments:
            yield self._until(segment.starts)
            self.next_ms = -inf if segment.value and self._left else inf
            self._clients = int(segment.value)
            self._idle += range(started, self._clients)
            started = max(started, self._clients)
            waking = [client for client in self._idle if client < self._clients]
            self._idle = [client for client in self._idle if client >= self._clients]
            for client in waking:
                self._next(client)
        yield self._env.timeout(max(self._segments[-1].ends - self._env.now, 0))
        self._clients = 0

    def _next(self, client: int) -> None:
        """A client's next request, when it has the answer to its last and has thought."""

        def done(_: Job, wait: float) -> None:
            think = self._workload.think
            pause = (self._chance.gap(think) if think else 0.0) + wait
            after(self._env, pause, lambda: self._next(client))

        if client >= self._clients:
            self._idle.append(client)
        else:
            self._send(done)

    def _traced(self) -> Process:
        assert self._workload.trace is not None
        starts = self._workload.starts
        for at, prompt, output in read_trace(self._workload.trace):
            if self._left <= 0 or (self._workload.ends or inf) <= starts + at:
                return
            self._left -= 1
            yield self._env.timeout(max(starts + at - self._env.now, 0))
            self._ask(self._name, prompt, output, _forget)


def _forget(_: Job, __: float) -> None:
    """Nobody waits for this job's end."""


def segments(scenario: Scenario, workload: Workload, chance: Chance) -> Sequence[Segment]:
    """The workload's rates in time: what the phases, the wave and the bursts make of it."""
    ends = min(workload.ends or inf, scenario.duration)
    base = float(workload.clients if workload.arrivals == "closed" else workload.rate)
    pieces = [Segment(workload.starts, ends, base)]
    for name, value in workload.during.items():
        phase = scenario.phases.get(name) or _whole(scenario)
        pieces = [part for piece in pieces for part in _over(piece, phase, value)]
    if workload.wave is not None:
        half = workload.wave.period / 2
        pieces = [
            Segment(at, to, workload.wave.rate if turn % 2 else piece.value)
            for piece in pieces
            for turn, at, to in _halves(piece, half)
        ]
    if workload.bursts is not None:
        on, off = workload.bursts.on, workload.bursts.off
        pieces = [part for piece in pieces for part in _bursts(piece, on, off, chance)]
    return pieces


def _whole(scenario: Scenario) -> Phase:
    return Phase.model_construct(starts=0, ends=scenario.duration)


def _over(piece: Segment, phase: Phase, value: float) -> Iterator[Segment]:
    """A segment with the part of it that lies in a phase at another value."""
    first, last = max(piece.starts, phase.starts), min(piece.ends, phase.ends)
    parts = [
        (piece.starts, first, piece.value),
        (first, last, value),
        (last, piece.ends, piece.value),
    ]
    if first >= last:
        parts = [(piece.starts, piece.ends, piece.value)]
    return (Segment(*part) for part in parts if part[0] < part[1])


def _halves(piece: Segment, half: float) -> Iterator[tuple[int, float, float]]:
    turn = int(piece.starts // half)
    at = piece.starts
    while at < piece.ends:
        to = min((turn + 1) * half, piece.ends)
        yield turn, at, to
        turn, at = turn + 1, to


def _bursts(piece: Segment, on: float, off: float, chance: Chance) -> Iterator[Segment]:
    """On and off in turn; it begins in either state as often as it is in it."""
    at, bursting = piece.starts, chance.rng.random() < on / max(on + off, 1)
    while at < piece.ends:
        to = min(at + chance.gap(on if bursting else off), piece.ends)
        yield Segment(at, to, piece.value if bursting else 0.0)
        at, bursting = to, not bursting


def read_trace(trace: Trace) -> Iterator[tuple[float, int, int]]:
    """(ms since its start, input tokens, output tokens) of a trace; raises `BadInput`."""
    path = Path(trace.file)
    if not path.exists():
        raise BadInput(f"trace.file is {trace.file!r}: there is no such file here")
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        for row in csv.DictReader(file):
            if trace.client is None or row["client"] == trace.client:
                at = 1000 * float(row["t_s"]) / trace.speed
                yield at, max(int(row["input_tokens"]), 1), max(int(row["output_tokens"]), 1)


def names(workloads: Mapping[str, Workload], only: Sequence[str]) -> list[str]:
    """The workloads that a run has; a crowd's member counts by its own name."""
    return [name for name in workloads if not only or name in only]
