"""What has ended and is in no report yet, kept in a file: a killed process loses none of it.

Each row goes into the file with one write(2) before `append` returns, about 3 µs. So it is in the
system's page cache, which outlives the process however that ends; it does not outlive a power cut,
which an fsync of 0.5 ms or more a request would. At the cut the rows become a report, which is
spooled with a sequence; then the file begins again under the next one. A file whose sequence has
been spooled already is from between those two steps, and says nothing new (R1).
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from marshal import dumps, load
from pathlib import Path
from typing import Any, get_args

from tokenweir.gateway.rows import Row

# marshal is three times as fast as JSON here, and reads what older Pythons wrote. Version 2 is its
# plainest form: a value is always the same bytes.
FORMAT = 2
COLUMNS = len(get_args(Row))


@dataclass(frozen=True, slots=True)
class Heading:
    """How a file begins. A row's time is on its process's own clock: the two times tie that to
    the wall's (T5).
    """

    columns: int
    sequence: int  # of the report that these rows will be
    own_ms: int
    wall_ms: int


class Settled(list[Row]):
    """A gate's rows since its last cut; what is appended is in the file too.

    A disk that does not take them stops nothing: `trouble` says so, until the next cut.
    """

    def __init__(self, path: Path, wall: Callable[[], int]) -> None:
        super().__init__()
        self.trouble = ""
        self._path = path
        self._wall = wall
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)

    def append(self, row: Row) -> None:
        """Add a row, on disk before this returns."""
        super().append(row)
        if not self.trouble:
            self._write(row)

    def begin(self, sequence: int, own_ms: int) -> None:
        """All rows so far are spooled; those to come are for the report of this sequence."""
        self.trouble = ""
        try:
            os.ftruncate(self._file, 0)
        except OSError as error:
            self._fail(error)
            return
        self._write((COLUMNS, sequence, own_ms, self._wall()))

    def close(self) -> None:
        """Let go of the file; it stays."""
        os.close(self._file)

    def _write(self, value: Row | tuple[int, int, int, int]) -> None:
        try:
            data = dumps(value, FORMAT)
            if os.write(self._file, data) != len(data):
                raise OSError("the disk is full")
        except (OSError, ValueError) as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        # What follows half a row could not be read: so nothing follows.
        self.trouble = f"what has ended since the last report is not kept in {self._path}: {error}"


def own_ms_of(row: Row) -> int:
    """When a row ended, on its process's own clock."""
    return row[21]


def read_settled(path: Path) -> tuple[Heading | None, list[Row]]:
    """What a process left in its file: rows up to the first that is not whole.

    No heading when there is none, or when the rows are of a version with other columns.
    """
    heading, *rows = _values(path) or [None]
    if not isinstance(heading, tuple) or len(heading) != 4 or heading[0] != COLUMNS:
        return None, []
    whole = [row for row in rows if isinstance(row, tuple) and len(row) == COLUMNS]
    return Heading(*heading), whole


def _values(path: Path) -> list[Any]:
    values: list[Any] = []
    try:
        with path.open("rb") as file:
            while True:
                values.append(load(file))
    except (EOFError, ValueError, TypeError, FileNotFoundError):
        return values
