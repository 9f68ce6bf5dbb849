"""Every second of every run as a CSV table, one row a run, second and tenant."""

import csv
from collections.abc import Iterator
from pathlib import Path

from tokenweir.sim.figures import Outcome
from tokenweir.sim.series import Series, series

HEADER = ("run", "second", "tenant", *Series.__dataclass_fields__)


def write_csv(outcome: Outcome, file: Path) -> None:
    """Write the table; what was not there in a second is empty."""
    with file.open("w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerows(_rows(outcome))


def _rows(outcome: Outcome) -> Iterator[list[str]]:
    for run, record in outcome.records.items():
        for tenant, columns in series(record).items():
            values = [getattr(columns, name) for name in Series.__dataclass_fields__]
            for second, row in enumerate(zip(*values, strict=True)):
                yield [run, str(second), tenant, *(_text(value) for value in row)]


def _text(value: float) -> str:
    return "" if value != value else f"{value:.6g}"
