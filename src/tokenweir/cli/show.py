"""Print what a command found: a table that fits the terminal, or JSON for scripts."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

GAP = 2


@dataclass(frozen=True, slots=True)
class Column:
    """A column: `drop` says how early it is left out of a narrow terminal; 0 is never."""

    title: str
    right: bool = False
    drop: int = 0


def show_json(value: Any) -> None:
    """One JSON document, exact: numbers as they are, times in ISO form, the rest as text."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=_text))


def show_line(value: Any) -> None:
    """One JSON document on a line of its own."""
    print(json.dumps(value, ensure_ascii=False, default=_text), flush=True)


def show_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Rows of texts under the columns' titles; where they do not fit, columns are left out."""
    console = _console()
    rows = [[_printable(text) for text in row] for row in rows]
    needed = [
        max(cell_len(text) for text in (column.title, *(row[at] for row in rows)))
        for at, column in enumerate(columns)
    ]
    if not console.is_terminal:
        console.width = max(console.width, sum(needed) + GAP * len(needed))
    kept = _fitting(columns, needed, console.width)
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold")
    for at in kept:
        column = columns[at]
        table.add_column(
            column.title,
            justify="right" if column.right else "left",
            no_wrap=column.right,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(row[at] for at in kept))
    console.print(table)
    left = [column.title for at, column in enumerate(columns) if at not in kept]
    if left:
        note(f"left out, for want of width: {', '.join(left)} (--output json has all)")


def width() -> int:
    """How long a line may be: the terminal's width, or in a pipe as long as it likes."""
    console = _console()
    return console.width if console.is_terminal else 1000


def note(text: str) -> None:
    """A remark beside the output, on standard error, so that pipes stay clean."""
    print(text, file=sys.stderr)


def _console() -> Console:
    return Console(highlight=False, markup=False, emoji=False)


def _fitting(columns: Sequence[Column], widths: Sequence[int], width: int) -> list[int]:
    """The columns that fit; those with the highest `drop` are left out first."""
    kept = list(range(len(columns)))
    droppable = sorted((at for at in kept if columns[at].drop), key=lambda at: columns[at].drop)
    while droppable and sum(widths[at] + GAP for at in kept) - GAP > width:
        kept.remove(droppable.pop())
    return kept


def _printable(text: str) -> str:
    """What a terminal shows and does not obey: a line break is \\n, an escape \\x1b."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, (date, datetime)) else str(value)
