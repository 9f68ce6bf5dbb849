"""The SDK's core under the control plane's core, in virtual time: promise 1 with nothing modelled.

Gateways' clocks differ; reports and control records are late, lost and repeated.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pools import START, pool_with, spec, tenant
from tests.property import edges
from tokenweir.core.pool import Pool
from tokenweir.core.step import advance, fold
from tokenweir.gateway import ledger
from tokenweir.gateway.hearing import ControlRecord
from tokenweir.gateway.pool import PoolGate
from tokenweir.gateway.request import Request

CAPACITY = 10_000  # tokens/s
LARGEST = 300  # tokens of one request
TENANTS = ("ded", "gua", "ela", "spo", "nobody knows me")
STEP_MS = 20
RULES = spec(
    tenant("ded", "dedicated", 1000),
    tenant("gua", "guaranteed", 3000),
    tenant("ela", "elastic", 2000),
    tenant("spo", "spot"),
    capacity=CAPACITY,
    lease_ms=4000,
    floor_ms=8000,
)


@dataclass
class Edge(edges.Edge):
    """One gateway, and what its tenants were charged."""

    done: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TENANTS, 0))


@dataclass
class Plane:
    """The pool's log, the control plane over it, and what is on its way to the gateways."""

    random: Random
    trouble: float  # how often a record is lost or late
    edges: list[Edge]
    pool: Pool = field(default_factory=lambda: pool_with(RULES))
    now_ms: int = START
    charged: int = 0  # milli-tokens
    best: int = 0

    def run(self, steps: int, load: Mapping[str, float]) -> None:
        for _ in range(steps):
            self.now_ms += STEP_MS
            for edge in self.edges:
                edge.deliver(self.now_ms)
                self._work(edge, load)
                if self.now_ms % 500 == 0:
                    edge.spool += edge.gate.cut(edge.own(self.now_ms))
                self._send(edge)
            self._check()

    def _work(self, edge: Edge, load: Mapping[str, float]) -> None:
        own_ms = edge.own(self.now_ms)
        for due_ms, request in [r for r in edge.running if r[0] <= self.now_ms]:
            edge.running.remove((due_ms, request))
            before = request.held
            ledger.settle(edge.gate, request, own_ms, self.random.randint(0, before // 1000), 0, 0)
            self.charged += request.held - before
            edge.done[request.tenant] += request.held // 1000
        asked = [r for r in edge.gate.serve(own_ms) if r.state == "admitted"]
        for name in TENANTS:
            if self.random.random() < load[name]:
                request = Request(name, "bo", self.random.randint(1, LARGEST))
                edge.gate.ask(request, own_ms)
                asked += [request] * (request.state == "admitted")
        for request in asked:
            self.charged += request.held
            edge.running.append((self.now_ms + self.random.randint(0, 400), request))

    def _send(self, edge: Edge) -> None:
        """One report in flight; its fate may be unknown, and then it is sent again (R1)."""
        if not edge.spool or self.now_ms < edge.in_flight_until_ms:
            return
        cut = edge.spool[0]
        sent_ms = edge.own(self.now_ms)
        age_ms = max(sent_ms - cut.cut_ms, 0)
        self._append(replace(cut.report, age_ms=age_ms))
        lost = self.random.random() < self.trouble
        edge.in_flight_until_ms = self.now_ms + (1000 if lost else STEP_MS)
        if not lost:
            edge.spool.pop(0)
            edge.acks.append((self.now_ms + STEP_MS, self.now_ms, sent_ms))

    def _append(self, record: object) -> None:
        decided = advance(self.pool, self.now_ms)
        fold(self.pool, record, self.now_ms)  # type: ignore[arg-type]
        if decided is None:
            return
        shared = (decided.roster, decided.barred)
        records = [record for record in shared if record is not None]
        for edge in self.edges:
            own = [lease for lease in decided.leases if lease.gateway == edge.gate.gateway]
            for record in (*records, *own, decided.decision):
                self._publish(edge, record)

    def _publish(self, edge: Edge, record: ControlRecord) -> None:
        late_ms = self.random.randint(0, 9000) if self.random.random() < self.trouble else STEP_MS
        edge.records.append((self.now_ms + late_ms, record))
        if self.random.random() < self.trouble:
            edge.records.append((self.now_ms + late_ms + 700, record))

    def _check(self) -> None:
        """Between any two moments: the capacity, one burst of it, and a request a bucket."""
        account = CAPACITY * (self.now_ms - START) - self.charged
        self.best = max(self.best, account)
        buckets = len(self.edges) * (len(TENANTS) + 1)
        assert self.best - account <= 1000 * (CAPACITY + buckets * LARGEST)


def plane(seed: int, trouble: float, gateways: int) -> Plane:
    edges = [Edge(PoolGate("chat", f"edge-{n}"), -START + 7777 * n) for n in range(gateways)]
    return Plane(Random(seed), trouble, edges)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from((0.0, 0.1, 0.4)), st.integers(1, 4))
def test_all_gateways_together_never_spend_more_than_the_capacity(
    seed: int, trouble: float, gateways: int
) -> None:
    world = plane(seed, trouble, gateways)
    for _ in range(5):
        world.run(200, {name: world.random.choice((0, 0.05, 0.5, 1)) for name in TENANTS})


@pytest.mark.parametrize("gateways", [1, 3])
def test_core_tenants_are_never_refused_inside_their_baselines_while_others_are(
    gateways: int,
) -> None:
    #  tokens/s asked for: 220 of ded's 1 000, 1 900 of gua's 3 000; all others as much as they can
    load = {"ded": 0.03 / gateways, "gua": 0.25 / gateways, "ela": 1.0, "spo": 1.0}
    world = plane(1, 0.0, gateways)
    world.run(1000, {**load, TENANTS[-1]: 0.3})
    for edge in world.edges:
        subjects = edge.gate.subjects
        assert subjects["ded"].refused == subjects["gua"].refused == {}
        assert subjects["spo"].refused["tokens"] > 500
    assert sum(edge.done["gua"] for edge in world.edges) > 10_000
