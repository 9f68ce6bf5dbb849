"""`tokenweir simulate`: run a scenario in virtual time, and hold its figures to their bounds."""

from pathlib import Path
from typing import Any

from tokenweir.cli.show import Column, note, show_json, show_table
from tokenweir.errors import BadInput
from tokenweir.sim.figures import Outcome, Result, simulate
from tokenweir.sim.read import read_scenario

OUTSIDE = 1
COLUMNS = (
    Column("FIGURE"),
    Column("VALUE", right=True),
    Column("PUBLISHED", drop=1),
    Column("BOUNDS"),
    Column(""),
)


def run(
    file: Path,
    output: str,
    quick: bool,
    seed: int | None,
    csv: Path | None,
    plot: Path | None,
) -> int:
    """Run, show, and return the exit code; what could not be written is told before the run."""
    for written in (csv, plot):
        if written is not None and not written.absolute().parent.is_dir():
            raise BadInput(f"{written}: name a file in a folder that is there")
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{file}: cannot be read: {error}") from error
    outcome = simulate(read_scenario(text, str(file), quick=quick, seed=seed))
    if csv is not None:
        from tokenweir.sim.table import write_csv

        write_csv(outcome, csv)
    if plot is not None:
        from tokenweir.sim.plot import draw

        draw(outcome, plot)
    (_json if output == "json" else _table)(outcome)
    return 0 if outcome.holds else OUTSIDE


def _table(outcome: Outcome) -> None:
    scenario = outcome.plan.scenario
    if scenario.about:
        print(f"{scenario.scenario}: {scenario.about.strip()}\n")
    show_table(COLUMNS, [_row(result) for result in outcome.results])
    if scenario.notes:
        print(f"\n{scenario.notes.strip()}")
    wrong = [result.name for result in outcome.results if not result.holds]
    if wrong:
        note(f"outside of its bounds: {', '.join(wrong)}")


def _row(result: Result) -> list[str]:
    figure = result.figure
    measured = result.value == result.value
    value = f"{result.value:.4g} {figure.unit}".strip() if measured else "nothing measured"
    return [result.name, value, figure.published, bounds(result), "" if result.holds else "OUTSIDE"]


def bounds(result: Result) -> str:
    """What a figure must be, in a few signs."""
    least, most = result.figure.least, result.figure.most
    parts = [f"≥ {least:g}"] if least is not None else []
    parts += [f"≤ {most:g}"] if most is not None else []
    return ", ".join(parts)


def _json(outcome: Outcome) -> None:
    scenario = outcome.plan.scenario
    show_json(
        {
            "scenario": scenario.scenario,
            "seed": scenario.seed,
            "holds": outcome.holds,
            "figures": [_figure(result) for result in outcome.results],
        }
    )


def _figure(result: Result) -> dict[str, Any]:
    figure = result.figure
    return {
        "name": result.name,
        # JSON has no NaN.
        "value": result.value if result.value == result.value else None,
        "unit": figure.unit,
        "published": figure.published,
        "least": figure.least,
        "most": figure.most,
        "holds": result.holds,
    }
