"""A scenario's runs, and its figures beside what was published and what they must be."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tokenweir.sim.expression import Reference, evaluate
from tokenweir.sim.measures import Measured
from tokenweir.sim.read import Plan
from tokenweir.sim.scenario import Figure
from tokenweir.sim.world import Record, World


@dataclass(frozen=True, slots=True)
class Result:
    """One figure as it came out."""

    name: str
    value: float
    figure: Figure

    @property
    def holds(self) -> bool:
        """It is within its bounds; NaN is within none."""
        least, most = self.figure.least, self.figure.most
        if least is None and most is None:
            return True
        return (least is None or self.value >= least) and (most is None or self.value <= most)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that a scenario's runs left."""

    plan: Plan
    records: Mapping[str, Record]
    results: tuple[Result, ...]

    @property
    def holds(self) -> bool:
        """Every figure is within its bounds."""
        return all(result.holds for result in self.results)


def simulate(plan: Plan) -> Outcome:
    """Run all runs of a scenario, and compute its figures."""
    records = {
        name: World(name, scenario, plan.scenario.runs[name]).run()
        for name, scenario in plan.runs.items()
    }
    return Outcome(plan, records, tuple(_results(plan, records)))


def _results(plan: Plan, records: Mapping[str, Record]) -> Iterator[Result]:
    measured = {name: Measured(record) for name, record in records.items()}

    def look_up(at: Reference) -> float:
        return measured[at.run].measure(at.tenant, at.measure, at.phase)

    for name, figure in plan.scenario.figures.items():
        yield Result(name, evaluate(figure.value, look_up), figure)
