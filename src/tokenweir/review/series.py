"""Figures over time, out of decisions: of the pool, and of the tenants that matter most."""

from collections.abc import Callable, Sequence

import numpy as np

from tokenweir.review.frames import Frame, lasting
from tokenweir.review.plots import Floats
from tokenweir.review.sums import Sums

MOST_CURVES = 8


def of_pool(frames: Sequence[Frame], figure: Callable[[Frame], int], unit: int) -> Floats:
    """One figure of each decision, in units of so many."""
    return np.array([figure(frame) / unit for frame in frames], dtype=np.float64)


def of_tenant(frames: Sequence[Frame], figure: str, tenant: str, unit: int) -> Floats:
    """One tenant's figure at each decision; 0 where it was idle."""
    values = np.zeros(len(frames))
    for number, frame in enumerate(frames):
        if tenant in frame.names:
            values[number] = frame.of(figure)[frame.names.index(tenant)] / unit
    return values


def per_second(frames: Sequence[Frame], tokens: Floats) -> Floats:
    """Amounts since the decision before as rates."""
    spans = np.array([*lasting(frames)], dtype=np.float64)
    spans = np.append(spans[:1], spans[:-1]) / 1000
    rates: Floats = tokens / np.maximum(spans, 0.001)
    return rates


def foremost(sides: Sequence[Sums]) -> list[str]:
    """The tenants that asked for most on any side, the names in their order."""
    asked: dict[str, int] = {}
    for sums in sides:
        for name, one in sums.tenants.items():
            asked[name] = max(asked.get(name, 0), one.spent + one.refused_tokens)
    most = sorted(asked, key=lambda name: (-asked[name], name))[:MOST_CURVES]
    return sorted(most)
