"""Gateways that run the SDK's real admission, driven as its asyncio shell drives it."""

from collections import deque
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import inf

from simpy import Environment
from simpy.events import Event

from tokenweir.gateway import ledger, streams
from tokenweir.gateway.hearing import ControlRecord
from tokenweir.gateway.pool import PoolGate
from tokenweir.gateway.report import Cut
from tokenweir.gateway.request import Request
from tokenweir.records.spec import PoolSpec
from tokenweir.sim.after import Alarm, after
from tokenweir.sim.control import EPOCH_MS, Plane
from tokenweir.sim.gpu import GpuPool
from tokenweir.sim.job import Job, Outcome
from tokenweir.sim.scenario import Network, Workload

Process = Generator[Event, None, None]
RETRY_MS = 1000.0  # where a refusal does not say
WAKING = 20  # intervals before the next request in which gateways report again after a rest
Refuse = Callable[[Job, float, str], None]  # with ms to wait, and the reason


@dataclass(frozen=True, slots=True)
class Pause:
    """A job was suspended for a while; ms of virtual time."""

    at: float
    until: float
    tenant: str


class SimRequest(Request):
    """A request that knows its job."""

    __slots__ = ("job",)

    job: Job


class Edge:
    """One gateway: its clock, its reports on their way, its wakes."""

    def __init__(self, env: Environment, name: str, place: int, fleet: "Gateways") -> None:
        self.gate = PoolGate(fleet.pool, name)
        self.cut_off = False
        self.missed: list[ControlRecord] = []
        self._env = env
        self._fleet = fleet
        self._ahead_ms = EPOCH_MS // 2 + 7_777 * place  # no two clocks agree
        self._spool: deque[Cut] = deque()
        self._sending = False
        self._alarm = Alarm(env, self._serve)
        self._last_cut = -inf
        self._hurries = False
        env.process(self._beat(place))

    def own_ms(self) -> int:
        """This gateway's clock."""
        return int(self._env.now) + self._ahead_ms

    def ask(self, job: Job) -> None:
        """Let the gate decide on a job."""
        workload = self._fleet.workloads[job.workload]
        decision = self.gate.assembly.decision
        job.tier = decision.tier if decision else "normal"
        needed = 1.0 if job.tier == "normal" else workload.degrade.get(job.tier, 1.0)
        if needed == 0:
            self._fleet.end(job, "answered")
            return
        job.prompt, job.output = (max(int(tokens * needed), 1) for tokens in job.asked)
        request = SimRequest(
            job.tenant,
            input_tokens=job.prompt,
            max_tokens=workload.output.most,
            priority=workload.priority,
            flow=workload.flow,
            timeout_ms=workload.timeout,
            kv_bytes=(job.prompt + job.output) * self._fleet.kv_bytes,
            attempt=job.attempts,
        )
        request.job, job.request, job.edge = job, request, self
        self.gate.ask(request, self.own_ms())
        self._goes(request)
        self._after()

    def through(self, job: Job) -> None:
        """The backend is through: tell what it used."""
        assert job.request is not None
        if job.request.state == "admitted":
            ledger.settle(self.gate, job.request, self.own_ms(), job.prompt, 0, job.output)
        self._after()

    def hear(self, record: ControlRecord) -> None:
        """A control record has come."""
        if self.cut_off:
            self.missed.append(record)
            return
        self.gate.hear(record, self.own_ms())
        for request in self.gate.take_revoked():
            assert isinstance(request, SimRequest)
            self._fleet.pause(request.job)
            self.gate.suspend(request, self.own_ms())
        self._after()

    def heal(self) -> None:
        """Kafka is there again: the log is read on, and what waits is sent."""
        self.cut_off = False
        missed, self.missed = self.missed, []
        for record in missed:
            self.hear(record)
        self._send()

    def _goes(self, request: SimRequest) -> None:
        if request.state == "admitted":
            self._fleet.send(request.job)
        elif request.state == "ended":
            denial = request.denial
            retry = denial.retry_ms if denial else None
            reason = denial.reason if denial else ""
            self._fleet.refuse(request.job, RETRY_MS if retry is None else retry, reason)

    def _after(self) -> None:
        """What every call of the gate must be followed by."""
        if self.gate.hurry:
            self.gate.hurry = False
            self._hurry()
        if self.gate.next_ms is not None:
            self._alarm.at(float(self.gate.next_ms - self._ahead_ms))

    def _serve(self) -> None:
        for request in self.gate.serve(self.own_ms()):
            assert isinstance(request, SimRequest)
            self._goes(request)
        self._after()

    def _beat(self, place: int) -> Process:
        """Report every half interval; gateways do not do so at the same moment."""
        yield self._env.timeout(37.0 * place % 500)
        while True:
            for request in self.gate.expire(self.own_ms()):
                assert isinstance(request, SimRequest)
                self._fleet.expired(request.job)
            self._cut()
            interval_ms = self.gate.interval_ms
            # Through a quiet night nobody reports: it would change nothing.
            rest = self._fleet.quiet_until() - WAKING * interval_ms - self._env.now
            yield self._env.timeout(max(interval_ms / 2, rest))

    def _hurry(self) -> None:
        """A report is due at once, at most four times an interval (R3)."""
        if self._hurries:
            return
        self._hurries = True
        wait = self._last_cut + self.gate.interval_ms / 4 - self._env.now
        after(self._env, max(wait, 0.0), self._cut)

    def _cut(self) -> None:
        self._last_cut = self._env.now
        self._hurries = False
        for request in self.gate.holds:
            assert isinstance(request, SimRequest)
            self._stream(request)
        if len(self._spool) < 2 or self.gate.rows or self.gate.streaming:
            self._spool.extend(self.gate.cut(self.own_ms()))
        self._send()
        self._after()

    def _stream(self, request: SimRequest) -> None:
        """Tell what a stream has produced as it does (T6)."""
        job = request.job
        if job.engine is None or not self._fleet.workloads[job.workload].streams:
            return
        prompt, out = job.engine.produced(job)
        new = prompt - request.uncached, out - request.out
        if min(new) >= 0 < max(new):
            streams.produce(self.gate, request, new[0], 0, new[1])

    def _send(self) -> None:
        """One report in flight (R1)."""
        if self._spool and not (self._sending or self.cut_off):
            self._sending = True
            self._env.process(self._deliver(self._spool[0]))

    def _deliver(self, cut: Cut) -> Process:
        sent_ms = self.own_ms()
        yield self._env.timeout(self._fleet.network.report)
        report = replace(cut.report, age_ms=max(sent_ms - cut.cut_ms, 0))
        append_ms = self._fleet.plane.append(report)
        yield self._env.timeout(self._fleet.network.report)
        self._sending = False
        self._spool.popleft()
        self.gate.acknowledged(append_ms, sent_ms, self.own_ms())
        self._after()
        self._send()


class Gateways:
    """All gateways of a pool, the control plane behind them, and the backend."""

    def __init__(
        self,
        env: Environment,
        spec: PoolSpec,
        network: Network,
        gpu: GpuPool,
        workloads: Mapping[str, Workload],
        refuse: Refuse,
        end: Callable[[Job, Outcome], None],
        kv_bytes: int,
        quiet_until: Callable[[], float],
    ) -> None:
        self.pool = spec.pool
        self.network = network
        self.gpu = gpu
        self.workloads = workloads
        self.refuse = refuse
        self.kv_bytes = kv_bytes
        self.end = end
        self.quiet_until = quiet_until
        self.pauses: list[Pause] = []
        self._paused: dict[Job, float] = {}
        self._env = env
        self.plane = Plane(env, spec, self._publish)
        self.edges = [Edge(env, f"edge-{n}", n, self) for n in range(network.gateways)]

    def ask(self, job: Job) -> None:
        """A balancer hands requests to the gateways in turn."""
        job.attempts += 1
        self.edges[(job.number + job.attempts) % len(self.edges)].ask(job)

    def through(self, job: Job) -> None:
        """The backend is through."""
        assert job.edge is not None
        job.edge.through(job)

    def send(self, job: Job) -> None:
        """A job was admitted, or goes on after a pause."""
        if job in self._paused:
            self.pauses.append(Pause(self._paused.pop(job), self._env.now, job.tenant))
        else:
            job.sent = self._env.now
        self.gpu.submit(job)

    def pause(self, job: Job) -> None:
        """Its tenant's work was revoked: the backend keeps what it has produced."""
        self._paused[job] = self._env.now
        self.gpu.stop(job)

    def expired(self, job: Job) -> None:
        """A job ran longer than the longest request: the backend stops it."""
        self.gpu.stop(job)
        self.end(job, "ended")

    def _publish(self, gateway: str | None, record: ControlRecord) -> None:
        """Records reach each gateway in the order of the topic."""
        to = [edge for edge in self.edges if gateway in (None, edge.gate.gateway)]
        for edge in to:
            after(self._env, self.network.control, partial(edge.hear, record))
