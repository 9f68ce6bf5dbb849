"""One run: the load, what stands before the backend, the backend, and what came of it."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import inf

from simpy import Environment

from tokenweir.records.usage import CapacityReport
from tokenweir.sim.after import after
from tokenweir.sim.control import Audited, DecisionTaken, Plane
from tokenweir.sim.front import Front
from tokenweir.sim.gateways import Gateways, Pause
from tokenweir.sim.gpu import PROFILES, GpuPool, Profile
from tokenweir.sim.job import Job, Outcome
from tokenweir.sim.load import PAUSE_MS, Process, Source, names
from tokenweir.sim.scenario import Event, Gpu, Run, Scenario
from tokenweir.sim.strategies import NoControl, StaticSplit, Turns, split, turns
from tokenweir.spec import compile_spec

MILLION = 1_000_000
SAMPLE_MS = 1000
SETTLE_MS = 120_000  # after the last that happened: windows are empty, debts are paid


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request was refused."""

    at: float
    tenant: str
    reason: str


@dataclass(frozen=True, slots=True)
class Sample:
    """The backend at one moment; `queue` is the longest since the last, work is since the start."""

    at: float
    queue: int
    running: int
    work_ms: float
    time_ms: float


@dataclass
class Record:
    """All that one run left, in the order of virtual time."""

    name: str
    scenario: Scenario
    jobs: list[Job] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    decisions: list[DecisionTaken] = field(default_factory=list)
    audits: list[Audited] = field(default_factory=list)
    pauses: list[Pause] = field(default_factory=list)


class World:
    """Everything of one run."""

    def __init__(self, name: str, scenario: Scenario, run: Run) -> None:
        self.record = Record(name, scenario)
        self._scenario = scenario
        self._env = Environment(initial_time=-scenario.warmup)
        weights = scenario.pool.token_weights
        self._weights = (weights.uncached / MILLION, weights.out / MILLION)
        self._gpu = GpuPool(self._env, profile(scenario.gpu), scenario.gpu.replicas, self._through)
        self._unended = 0
        self._last_ms = self._env.now
        self._front = self._fronts(run)
        self._sources = [
            Source(self._env, scenario, tenant, scenario.workloads[tenant], self._born(tenant))
            for tenant in names(scenario.workloads, run.only)
        ]
        self._env.process(self._sampled())
        for event in sorted(scenario.events, key=lambda event: event.at):
            self._env.process(self._happens(event))

    def run(self) -> Record:
        """Let it run to its end."""
        self._env.run(until=self._scenario.duration)
        if isinstance(self._front, Gateways):
            self.record.decisions = self._front.plane.decisions
            self.record.audits = self._front.plane.audits
            self.record.pauses = self._front.pauses
        return self.record

    def _fronts(self, run: Run) -> Front:
        tenants = names(self._scenario.workloads, run.only)
        weights = {tenant: run.weights.get(tenant, 1) for tenant in tenants}
        slots = profile(self._scenario.gpu).slots * self._scenario.gpu.replicas
        match run.strategy:
            case "none":
                return NoControl(self._env, self._gpu)
            case "static-split":
                return StaticSplit(self._env, self._gpu, split(slots, weights))
            case "round-robin":
                return Turns(self._env, self._gpu, slots, tenants, run.hold)
            case "static-weights":
                return Turns(self._env, self._gpu, slots, turns(weights), run.hold)
            case "tokenweir":
                return self._gateways()

    def _gateways(self) -> Gateways:
        scenario = self._scenario
        return Gateways(
            self._env,
            compile_spec(scenario.pool, 1, 0),
            scenario.network,
            self._gpu,
            scenario.workloads,
            self._refused,
            self._end,
            scenario.gpu.kv_bytes,
            self._quiet_until,
        )

    def _quiet_until(self) -> float:
        """When the next thing happens; now, if something does or did lately."""
        now = self._env.now
        if self._unended or now - self._last_ms < SETTLE_MS:
            return now
        asked = (source.next_ms for source in self._sources)
        return max(
            min(*asked, *(one.at for one in self._scenario.events if one.at > now), inf), now
        )

    def _born(self, tenant: str) -> Callable[[str, int, int, Callable[[Job, float], None]], None]:
        def born(name: str, prompt: int, output: int, done: Callable[[Job, float], None]) -> None:
            number = len(self.record.jobs)
            job = Job(number, tenant, name, self._env.now, prompt, output, done)
            self.record.jobs.append(job)
            self._unended += 1
            self._front.ask(job)

        return born

    def _refused(self, job: Job, retry_ms: float, reason: str) -> None:
        self.record.refusals.append(Refusal(self._env.now, job.tenant, reason))
        retries = self._scenario.workloads[job.workload].retries
        if job.attempts > retries:
            self._end(job, "refused", max(retry_ms, PAUSE_MS))
            return
        after(self._env, max(retry_ms, 1.0), lambda: self._front.ask(job))

    def _through(self, job: Job) -> None:
        job.charge = job.prompt * self._weights[0] + job.output * self._weights[1]
        self._front.through(job)
        self._end(job, "done")

    def _end(self, job: Job, outcome: Outcome, wait: float = 0.0) -> None:
        job.outcome = outcome
        job.ended = self._last_ms = self._env.now
        self._unended -= 1
        job.request = job.edge = None
        job.done(job, wait)

    def _sampled(self) -> Process:
        yield self._env.timeout(self._scenario.warmup)
        while True:
            gpu = self._gpu
            row = (gpu.longest_queue, gpu.running, gpu.work_ms, gpu.time_ms)
            self.record.samples.append(Sample(self._env.now, *row))
            gpu.longest_queue = len(gpu.queue)
            yield self._env.timeout(SAMPLE_MS)

    def _happens(self, event: Event) -> Process:
        yield self._env.timeout(event.at - self._env.now)
        self._last_ms = self._env.now
        if event.replicas is not None:
            self._gpu.resize(event.replicas)
        if not isinstance(self._front, Gateways):
            return
        if event.capacity is not None:
            _report(self._front.plane, self._scenario.pool.pool, event.capacity)
        for place in event.cut:
            self._front.edges[place].cut_off = True
        for place in event.heal:
            self._front.edges[place].heal()


def _report(plane: Plane, pool: str, tokens_per_s: int) -> None:
    plane.append(CapacityReport(pool, "simulator", tokens_per_s, None, None))


def profile(gpu: Gpu) -> Profile:
    """The replica that a scenario describes."""
    fields = ("prefill_tokens_per_s", "step_ms", "per_sequence_ms", "slots", "kv_tokens")
    said = {name: getattr(gpu, name) for name in fields if getattr(gpu, name) is not None}
    return replace(PROFILES[gpu.profile], **said)
