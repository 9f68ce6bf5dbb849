"""The plots of an incident: the pool's, then those of the tenants that asked for most."""

from collections.abc import Iterator, Sequence

from tokenweir.review.frames import Frame
from tokenweir.review.page import Plot, plot
from tokenweir.review.plots import MOST_POINTS, curves
from tokenweir.review.series import foremost, of_pool, of_tenant, per_second
from tokenweir.review.sums import Sums

# Figure, title, caption, unit, in units of so many, and whether it counts since the last decision.
TENANTS = (
    ("demand", "Demand", "Spent, refused and waiting", "tokens/s", 1000, False),
    ("grant", "Grants", "What each tenant may spend", "tokens/s", 1000, False),
    ("spent", "Spent", "What each tenant used", "tokens/s", 1, True),
    ("refused_tokens", "Refused", "What each tenant was refused", "tokens/s", 1, True),
    (
        "debt",
        "Debt",
        "What elastic tenants are owed, as a part of the baseline",
        "ratio",
        10**6,
        False,
    ),
)


def plots(frames: Sequence[Frame], sums: Sums) -> Iterator[Plot]:
    """Level and capacity, then demand, grants, use, refusals and debt by tenant."""
    each = _each(frames)
    levels = curves(
        [
            ("level", of_pool(frames, lambda one: one.level, 10_000)),
            ("lent", of_pool(frames, lambda one: one.lent, 10_000)),
        ]
    )
    what = "Smoothed use of what is reserved, as a part of the budget; lent to spot and preemptible"
    yield plot("plot-level", "Level", what + each, "%", [(frames, levels)])
    capacity = curves(
        [
            ("capacity", of_pool(frames, lambda one: one.capacity, 1000)),
            ("granted", of_pool(frames, lambda one: one.granted, 1000)),
        ]
    )
    what = "What the pool can do, and what is granted of it"
    yield plot("plot-capacity", "Capacity", what + each, "tokens/s", [(frames, capacity)])
    names = foremost([sums])
    for figure, title, caption, unit, one, is_amount in TENANTS:
        series = [(name, of_tenant(frames, figure, name, one)) for name in names]
        if is_amount:
            series = [(name, per_second(frames, values)) for name, values in series]
        drawn = [(frames, curves(series))]
        yield plot(f"plot-{figure}", title, caption + _some(names, sums) + each, unit, drawn)


def _some(names: Sequence[str], sums: Sums) -> str:
    rest = len(sums.tenants) - len(names)
    return f"; the {len(names)} tenants that asked for most" if rest else ""


def _each(frames: Sequence[Frame]) -> str:
    count = -(-len(frames) // MOST_POINTS)
    return f". A point is the mean of {count} decisions" if count > 1 else ""
