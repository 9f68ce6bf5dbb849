"""A crowd without a lease is told when to come again: right within a second, in virtual time."""

from collections import defaultdict

from tokenweir.sim.job import Job
from tokenweir.sim.read import read_scenario
from tokenweir.sim.world import World

# All of the pool is leased to `busy`, so the crowd's lease needs a decision more to grow.
TEXT = """
scenario: crowd
pool:
  pool: chat
  capacity: {tokens_per_s: 80k/s}
  tenants:
    busy: {class: guaranteed, baseline: 60k/s, lend_cap: 0}
    evals: {class: spot}
gpu: {replicas: 8}
network: {gateways: 1}
duration: 30 s
workloads:
  busy: {rate: 5, prompt: 500, output: 20}
  evals:
    {arrivals: closed, starts: 8 s, clients: 200, count: 200, retries: 9, prompt: 800, output: 100}
"""
SECOND = 1000.0


class Asked(World):
    """Keeps what each refused job was told: the reason, and when to come."""

    def run_told(self) -> dict[Job, list[tuple[str, float]]]:
        self.told: dict[Job, list[tuple[str, float]]] = defaultdict(list)
        self.run()
        return self.told

    def _refused(self, job: Job, retry_ms: float, reason: str) -> None:
        self.told[job].append((reason, self._env.now + retry_ms))
        super()._refused(job, retry_ms, reason)


def test_a_crowd_at_the_pot_is_told_when_its_lease_comes_and_then_each_its_place() -> None:
    plan = read_scenario(TEXT, "crowd.yaml")
    world = Asked("with", plan.runs["with"], plan.scenario.runs["with"])
    told = world.run_told()
    figures = [(taken.at, taken.entry.tenants) for taken in world.record.decisions]
    leased = [(at, dict(zip(row.tenant, row.leased, strict=True))) for at, row in figures]
    lease_ms = next(at for at, rates in leased if rates.get("evals"))
    rows = [(job, *row) for job, each in told.items() for row in each]
    off = {
        "pot": [min(abs(lease_ms - at), abs(job.sent - at)) for job, of, at in rows if of == "pot"],
        "tokens": [abs(job.sent - at) for job, of, at in rows if of == "tokens"],
    }
    print({of: f"{len(each)} told, right within {max(each):.0f} ms" for of, each in off.items()})
    assert len(told) > 190
    assert max(off["pot"]) <= SECOND
    assert max(off["tokens"]) <= SECOND
    assert len(off["tokens"]) <= len(told)
