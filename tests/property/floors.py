"""What every decision owes to owners and borrowers (DESIGN, decisions 5 to 7), by its figures."""

from collections.abc import Mapping
from dataclasses import dataclass

from tokenweir.core.pool import Pool
from tokenweir.records.journal import DecisionEntry
from tokenweir.records.spec import RANK

CORE = RANK["guaranteed"]
ELASTIC = RANK["elastic"]
BETA = 0.3
POTS = 0.05


class Broken(AssertionError):
    """A decision took from somebody what it had to leave."""


@dataclass(frozen=True, slots=True)
class Figures:
    """One tenant's figures in one decision, milli-tokens/s."""

    rank: int
    baseline: int
    demand: int
    floor: int
    grant: int
    borrowed: int


class Floors:
    """Checks each decision of one pool, by itself and against the one before."""

    def __init__(self) -> None:
        self.before: Mapping[str, Figures] = {}
        self.terms: tuple[object, ...] = ()
        self.reclaims = 0

    def check(self, entry: DecisionEntry, pool: Pool) -> None:
        """Look at the decision that `pool` has just made; raises `Broken`."""
        assert pool.spec is not None
        suspended = {claim.tenant for claim in pool.spec.entitlements if claim.suspended}
        now = {name: each for name, each in figures(entry).items() if name not in suspended}
        self._core_is_whole(entry, now)
        terms = (
            entry.decision.spec_version,
            entry.decision.capacity,
            entry.decision.tier,
            entry.decision.breaker,
            entry.decision.alpha,
        )
        if terms == self.terms:
            self._beta_holds(entry, now)
        self.before, self.terms = now, terms

    @staticmethod
    def _core_is_whole(entry: DecisionEntry, now: Mapping[str, Figures]) -> None:
        """Where the core's floors fit, each has its own, or what it asks for of it."""
        available = entry.decision.capacity * 90 // 100
        core = [each for each in now.values() if each.rank >= CORE]
        if entry.decision.breaker != "closed" or sum(each.baseline for each in core) > available:
            return
        for name, each in now.items():
            if each.rank >= CORE and each.grant < min(each.baseline, each.demand):
                raise Broken(f"{name} has {each} at {entry.decision.id}")

    def _beta_holds(self, entry: DecisionEntry, now: Mapping[str, Figures]) -> None:
        """While elastic floors come back, a borrower keeps 1 - β, unless the core's come too.

        What is borrowed while the breaker is not closed are probes, which nobody keeps.
        """
        if entry.decision.breaker != "closed":
            return
        grown = {name for name, each in now.items() if each.floor > self._floor(name)}
        if not grown or any(now[name].rank >= CORE for name in grown):
            return
        for name, was in self.before.items():
            each = now.get(name)
            if each is None or each.rank < ELASTIC or name in grown:
                continue
            wanted = max(each.demand - each.floor, 0)
            least = min(was.borrowed - was.borrowed * BETA, wanted)
            self.reclaims += each.borrowed < was.borrowed
            if each.borrowed < int(least) - 1:
                raise Broken(f"{name} had {was} and has {each} at {entry.decision.id}")

    def _floor(self, name: str) -> int:
        return self.before[name].floor if name in self.before else 0


def figures(entry: DecisionEntry) -> dict[str, Figures]:
    """The figures by tenant."""
    tenants = entry.tenants
    columns = (
        [RANK[each] for each in tenants.service_class],
        tenants.baseline,
        tenants.demand,
        tenants.floor,
        tenants.grant,
        tenants.borrowed,
    )
    return dict(
        zip(tenants.tenant, (Figures(*row) for row in zip(*columns, strict=True)), strict=True)
    )
