"""Scenarios hold their bounds: scaled down here, whole with --full, which writes what is kept."""

import json
from pathlib import Path

import pytest

from tokenweir.sim.figures import Outcome, simulate
from tokenweir.sim.plot import draw
from tokenweir.sim.read import read_scenario

ROOT = Path(__file__).parents[2]
SCENARIOS = ROOT / "scenarios"
KEPT = ROOT / "docs/experiments"
NAMES = [
    "big-sale",
    "cross-class",
    "fair-share",
    "friday-evening",
    "idle-sharing",
    "internal-cluster",
    "multiplexing",
    "open-platform",
    "queue-strategies",
    "square-wave",
    "vip-and-free",
]


@pytest.mark.experiment
@pytest.mark.parametrize("name", NAMES)
def test_its_figures_are_within_their_bounds(name: str, full: bool) -> None:
    file = SCENARIOS / f"{name}.yaml"
    outcome = simulate(read_scenario(file.read_text(), file.name, quick=not full))
    if full:
        keep(outcome, name)
    wrong = {one.name: one.value for one in outcome.results if not one.holds}
    assert not wrong


def keep(outcome: Outcome, name: str) -> None:
    """The plot and the figures that docs/experiments.md shows; they are checked in."""
    draw(outcome, KEPT / f"{name}.png")
    figures = {
        one.name: float(f"{one.value:.4g}") for one in outcome.results if one.value == one.value
    }
    (KEPT / f"{name}.json").write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n")


@pytest.mark.parametrize("name", NAMES)
def test_it_can_be_read_in_both_sizes(name: str) -> None:
    file = SCENARIOS / f"{name}.yaml"
    for quick in (False, True):
        plan = read_scenario(file.read_text(), file.name, quick=quick)
        assert plan.scenario.scenario == name
        assert any(
            figure.least is not None or figure.most is not None
            for figure in plan.scenario.figures.values()
        )
