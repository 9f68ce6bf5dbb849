"""A what-if as a page: both sides in tables and plots."""

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

from tokenweir.cli.review.page_file import write_page
from tokenweir.cli.what_if.words import (
    assumed_words,
    changed_by,
    cost_row,
    lead_words,
    outcome_words,
    pool_rows,
    tenant_row,
)
from tokenweir.review.frames import Frame
from tokenweir.review.page import Plot, page, plot
from tokenweir.review.plots import Curve, curves
from tokenweir.review.series import foremost, of_pool, of_tenant, per_second
from tokenweir.review.versus import Versus
from tokenweir.review.what_if import WhatIf

ARROW = "recorded → changed where the two differ"


def write(found: WhatIf, sums: Versus, name: str, path: Path) -> None:
    """Write the page; raises `BadInput` when it cannot be written."""
    what = "charged tokens" if not sums.priced else "in the price table's currency"
    text = page(
        "what_if.html",
        title=f"What if: {name} for pool {found.before.pool}",
        lead=lead_words(found, sums, name),
        summary=[*outcome_words(found, sums)],
        assumed=[*assumed_words(found, sums)],
        pool={
            "columns": ["", "Recorded", "Changed"],
            "rows": [*pool_rows(sums)],
            "caption": "The pool; level is the smoothed use of what is reserved, lent is what "
            "spot and preemptible take beside it",
        },
        tenants={
            "columns": [
                "Tenant",
                "Class",
                "Spent",
                "Gain",
                "Granted",
                "Borrowed",
                "Refused requests",
                "Refused tokens",
                "Highest debt",
            ],
            "rows": [tenant_row(one) for one in sums.tenants],
            "caption": f"Tenants in charged tokens, {ARROW}",
        },
        costs={
            "columns": ["Tenant", "Recorded", "Changed", "Difference"],
            "rows": [cost_row(one, sums.priced) for one in sums.tenants],
            "caption": f"Cost, {what}",
        },
        changes={
            "columns": ["Field", "Recorded", "Changed"],
            "rows": [
                [change.path, change.before or "(none)", change.after or "(none)"]
                for change in changed_by(found)
            ],
            "caption": "Fields of the spec that differ",
        },
        sides=("recorded", "changed"),
        plots=[*_plots(found, sums)],
        footer=f"Made by tokenweir {version('tokenweir')} from the recorded log.",
    )
    write_page(path, text)


def _plots(found: WhatIf, sums: Versus) -> Iterator[Plot]:
    sides = found.recorded.frames, found.changed.frames
    levels = [
        (
            frames,
            curves(
                [
                    ("level", of_pool(frames, lambda one: one.level, 10_000)),
                    ("lent", of_pool(frames, lambda one: one.lent, 10_000)),
                ]
            ),
        )
        for frames in sides
    ]
    yield plot(
        "level", "Level", "Smoothed use as a part of the budget, and what is lent", "%", levels
    )
    names = foremost((sums.before, sums.after))
    for figure, title, caption, unit, one in (
        ("spent", "Spent", "Charged tokens a second", "tokens/s", 1),
        ("grant", "Grants", "What each tenant may spend", "tokens/s", 1000),
        ("refused_tokens", "Refused", "Charged tokens refused a second", "tokens/s", 1),
        (
            "debt",
            "Debt",
            "What elastic tenants are owed, as a part of the baseline",
            "ratio",
            10**6,
        ),
    ):
        panels = [(frames, _tenants(frames, figure, names, one)) for frames in sides]
        yield plot(f"plot-{figure}", title, caption, unit, panels)


def _tenants(frames: Sequence[Frame], figure: str, names: Sequence[str], unit: int) -> list[Curve]:
    series = [(name, of_tenant(frames, figure, name, unit)) for name in names]
    if figure in ("spent", "refused_tokens"):
        series = [(name, per_second(frames, values)) for name, values in series]
    return curves(series)
