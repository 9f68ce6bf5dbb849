"""The SDK's core under a control plane whose breaker opens, probes and closes, in virtual time."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from tests.pools import START, pool_with, ppm, report, spec, tenant
from tests.property.test_gateway_plane import Edge, Plane
from tokenweir.gateway.pool import PoolGate
from tokenweir.records.spec import BreakerTerms, TierTerms

RULES = replace(
    spec(
        tenant("ded", "dedicated", 1000),
        tenant("gua", "guaranteed", 2000),
        tenant("ela", "elastic", 500),
        tenant("spo", "spot"),
        window_s=4,
        breaker=BreakerTerms("borrowers", 3_000, 60_000, ppm(0.05), ppm(0.1)),
    ),
    tiers=TierTerms(ppm(0.7), ppm(0.9), ppm(1), ppm(0.05), 2, 3_000),
)
LOAD = {"ded": 0.05, "gua": 0.1, "ela": 0.5, "spo": 0.5, "nobody knows me": 0.1}


@dataclass
class Overrun(Plane):
    """A plane with one more gateway, which enforces nothing."""

    sent: int = 0
    takes: int = 9_000  # tokens/s

    def until(self, holds: Callable[[], bool], seconds: int = 40) -> None:
        """Go on, half a second at a time; fails when it does not hold in time."""
        for _ in range(2 * seconds):
            if holds():
                return
            self.run(25, LOAD)
            self.sent += 1
            self._append(report("runaway", self.sent, {"spo": self.takes // 2}))
        raise AssertionError(self.pool.breaker)

    def admitted(self, name: str) -> int:
        """Requests at all gateways so far."""
        subjects = [edge.gate.subjects.get(name) for edge in self.edges]
        return sum(subject.admitted for subject in subjects if subject)

    def breaker(self) -> str:
        """As the gateways know it."""
        decision = self.edges[0].gate.assembly.decision
        return decision.breaker if decision else ""


def test_floors_pass_an_open_breaker_probes_a_half_open_one_and_all_a_closed_one() -> None:
    edges = [Edge(PoolGate("chat", f"edge-{n}"), -START + 7777 * n) for n in range(2)]
    world = Overrun(Random(1), 0.0, edges, pool_with(RULES))
    world.until(lambda: world.admitted("spo") > 10)
    world.until(lambda: world.breaker() == "open")
    world.run(50, LOAD)
    before = {name: world.admitted(name) for name in LOAD}
    world.run(100, LOAD)  # two seconds
    assert world.admitted("spo") == before["spo"]
    assert world.admitted("ded") > before["ded"]
    assert world.admitted("gua") > before["gua"]
    open_rate = world.admitted("ela") - before["ela"]
    world.takes = 0
    world.until(lambda: world.breaker() == "half_open")
    assert all(edge.gate.probe.rate > 0 for edge in edges)
    # Together they probe with what the decision says: 5 % of the capacity.
    assert sum(edge.gate.probe.rate for edge in edges) <= 500_000
    before["ela"] = world.admitted("ela")
    world.run(100, LOAD)
    assert world.admitted("ela") - before["ela"] > open_rate
    world.until(lambda: world.breaker() == "closed")
    before["spo"] = world.admitted("spo")
    world.until(lambda: world.admitted("spo") > before["spo"])
    assert all(edge.gate.probe.rate == 0 for edge in edges)
