"""A scenario's runs drawn side by side: one column a run, one row a kind of curve."""

from collections.abc import Callable, Mapping
from io import BytesIO
from itertools import cycle
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from tokenweir.sim.figures import Outcome
from tokenweir.sim.series import POOL, Series, series
from tokenweir.sim.world import Record

# A tenant has the same colour in every plot of a scenario; chosen to differ in grey as well.
COLOURS = ("#0b5394", "#e69138", "#38761d", "#a61c00", "#674ea7", "#45818e")
MOST_RUNS = 4  # columns; further runs are in the table only
SMOOTH_S = 5  # rates are averaged over so many seconds
Rows = Mapping[str, tuple[str, bool, Callable[[Series], np.ndarray]]]
ROWS: Rows = {  # the axis, whether it is the pool's, the curve
    "ttft": ("time to first token, s", False, lambda one: one.ttft),
    "tokens": ("tokens/s", False, lambda one: _smooth(one.tokens)),
    "refused": ("refused/s", False, lambda one: _smooth(one.refused)),
    "grant": ("grant, tokens/s", False, lambda one: one.grant),
    "weight": ("weight", False, lambda one: one.weight),
    "queue": ("backend's queue", True, lambda one: one.queue),
    "running": ("running", True, lambda one: one.running),
    "level": ("water level", True, lambda one: one.level),
}


def draw(outcome: Outcome, file: Path) -> None:
    """Write the plot as PNG, the same bytes for the same outcome."""
    scenario = outcome.plan.scenario
    records = dict(list(outcome.records.items())[:MOST_RUNS])
    size = (3.2 * len(records) + 0.6, 1.7 * len(scenario.plot) + 0.8)
    with mpl.rc_context({"font.size": 7, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(
            len(scenario.plot), len(records), squeeze=False, sharex=True, sharey="row"
        )
        for column, (run, record) in enumerate(records.items()):
            grid[0][column].set_title(run)
            _column([row[column] for row in grid], record)
            grid[-1][column].set_xlabel("s")
        for row, kind in zip(grid, scenario.plot, strict=True):
            row[0].set_ylabel(ROWS[kind][0])
            row[0].set_ylim(bottom=0)
        if scenario.drawn is not None:
            grid[0][0].set_xlim(scenario.drawn.starts / 1000, scenario.drawn.ends / 1000)
        handles, labels = grid[0][0].get_legend_handles_labels()
        if handles:
            figure.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False)
        drawn = BytesIO()
        figure.savefig(drawn, dpi=90)
        # A few colours make a quarter of the size, and no date or version stands in the file.
        with Image.open(drawn) as image:
            few = image.convert("RGB").quantize(32, dither=Image.Dither.NONE)
            few.save(file, "PNG", optimize=True)


def _column(axes: list[Axes], record: Record) -> None:
    found = series(record)
    colours = dict(zip((name for name in found if name != POOL), cycle(COLOURS), strict=False))
    for axis, kind in zip(axes, record.scenario.plot, strict=True):
        _, of_pool, curve = ROWS[kind]
        for name in [POOL] if of_pool else colours:
            values = curve(found[name])
            if not np.all(np.isnan(values)):
                colour = "#444444" if of_pool else colours[name]
                axis.plot(values, color=colour, linewidth=0.9, label=name)
        axis.margins(x=0)
        for phase in record.scenario.phases.values():
            axis.axvline(phase.starts / 1000, color="#cccccc", linewidth=0.5, zorder=0)


def _smooth(values: np.ndarray) -> np.ndarray:
    kernel = np.ones(min(SMOOTH_S, len(values)))
    weight = np.convolve(np.ones(len(values)), kernel, mode="same")
    smoothed: np.ndarray = np.convolve(values, kernel, mode="same") / weight
    return smoothed
