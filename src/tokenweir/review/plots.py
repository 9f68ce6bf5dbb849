"""Curves over time as SVG: axes and lines only, since names are text of the page around them.

Colours differ in lightness as well, after Okabe and Ito, and curves in their dashes.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import matplotlib as mpl
import matplotlib.dates as mdates
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from numpy.typing import NDArray

from tokenweir.review.frames import Frame, lasting

Floats = NDArray[np.float64]
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#b8860b", "#5b3a8c", "#555555")
DASHES = ((), (6, 2), (2, 2), (8, 2, 2, 2))
# Behind the curves while a tier lasts; normal has none.
TIERS = {"soft_degrade": "#fdf0c4", "hard_degrade": "#f9d5a7", "circuit_break": "#f3b3b0"}
MOST_POINTS = 400
WIDTH, HEIGHT = 7.2, 2.3  # inches, of 100 pixels
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "tokenweir",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#666666",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.5,
}


@dataclass(frozen=True, slots=True)
class Curve:
    """One line: values by decision, and how it is drawn."""

    label: str
    values: Floats
    colour: str
    dash: tuple[int, ...]


def curves(series: Sequence[tuple[str, Floats]]) -> list[Curve]:
    """The series, each drawn in its own way."""
    return [
        Curve(label, values, COLOURS[at % len(COLOURS)], DASHES[at // len(COLOURS) % len(DASHES)])
        for at, (label, values) in enumerate(series)
    ]


def draw(panels: Sequence[tuple[Sequence[Frame], Sequence[Curve]]], unit: str) -> str:
    """Panels side by side, on one scale; the SVG, the same for the same figures.

    `unit` is "%", or what the values are counted in. A panel has the tiers of its frames behind it.
    """
    with mpl.rc_context(STYLE):  # type: ignore[arg-type]  # its keys are literals
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        axes = figure.subplots(1, len(panels), squeeze=False, sharey="row")[0]
        for axis, (frames, lines) in zip(axes, panels, strict=True):
            _panel(axis, frames, lines)
        axes[0].set_ylabel(unit)
        axes[0].set_ylim(bottom=0)
        axes[0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()


def _panel(axis: Axes, frames: Sequence[Frame], lines: Sequence[Curve]) -> None:
    times = np.array([frame.at_ms / 1000 for frame in frames])
    for line in lines:
        at, values = thinned(times, line.values)
        (drawn,) = axis.plot(_dates(at), values, color=line.colour, linewidth=1.3)
        if line.dash:
            drawn.set_dashes(line.dash)
    pairs = zip(frames, lasting(frames), strict=True)
    for tier, group in groupby(pairs, key=lambda pair: pair[0].tier):
        held = [*group]
        if tier in TIERS:
            last, ms = held[-1]
            starts, ends = _dates(np.array([held[0][0].at_ms, last.at_ms + ms]) / 1000)
            axis.axvspan(starts, ends, color=TIERS[tier], linewidth=0, zorder=0)
    locator = mdates.AutoDateLocator(minticks=3, maxticks=6)  # type: ignore[no-untyped-call]
    axis.xaxis.set_major_locator(locator)
    axis.xaxis.set_major_formatter(
        mdates.ConciseDateFormatter(locator, show_offset=False)  # type: ignore[no-untyped-call]
    )
    axis.margins(x=0.01)


def _dates(at_s: Floats) -> Floats:
    # Days since 1970, which is what matplotlib's own dates are.
    days: Floats = at_s / 86_400
    return days


def thinned(times: Floats, values: Floats) -> tuple[Floats, Floats]:
    """The means of neighbours, so that at most `MOST_POINTS` points are left."""
    each = -(-len(times) // MOST_POINTS)
    if each <= 1:
        return times, values
    starts = np.arange(0, len(times), each)
    counts = np.diff(np.append(starts, len(times)))
    mean: Floats = np.add.reduceat(values, starts) / counts
    return times[starts], mean


def _short(value: float) -> str:
    for one, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= one:
            return f"{value / one:g}{letter}"
    return f"{value:g}"
