"""Rows on their way into a table, in columns, and the record of a log that they come from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tokenweir.history.ddl import Table

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Place:
    """One partition of one log."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a log as Kafka gives it; `append_ms` is the broker's append time."""

    place: Place
    offset: int
    append_ms: int
    key: bytes | None
    value: bytes | None

    @property
    def day(self) -> int:
        """The UTC day of append, which is the partition of its rows in every table."""
        return self.append_ms // DAY_MS


@dataclass(frozen=True, slots=True)
class Rows:
    """`count` rows of one record: columns that differ by row, and values that all rows share.

    Together they name every column of the table but those that the record itself gives.
    """

    table: Table
    count: int
    same: Mapping[str, object]
    each: Mapping[str, Sequence[object]]


def one_row(table: Table, **values: object) -> Rows:
    """A single row; `__` in a keyword stands for the dot of a nested column."""
    return Rows(table, 1, {name.replace("__", "."): value for name, value in values.items()}, {})


class Block:
    """The rows of one insert: one table, one Kafka partition, one day, in log order (H1)."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.columns: dict[str, list[object]] = {name: [] for name in table.names}
        self.last_offset = -1

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def add(self, record: Record, rows: Rows) -> None:
        """Append the rows of the next record."""
        given = {
            "topic": record.place.topic,
            "partition": record.place.partition,
            "offset": record.offset,
            "append_time": record.append_ms,
            **rows.same,
        }
        each = {"index": range(rows.count), **rows.each}
        for name, column in self.columns.items():
            column.extend(each[name] if name in each else [given[name]] * rows.count)
        self.last_offset = record.offset
