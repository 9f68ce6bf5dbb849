"""Tables and views as values that write their own CREATE statements."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """One column; `doc` says what it means and its unit."""

    name: str
    type: str
    codec: str = "ZSTD(1)"
    doc: str = ""

    def ddl(self) -> str:
        """The column's line in CREATE TABLE."""
        comment = f" COMMENT {quoted(self.doc)}" if self.doc else ""
        return f"`{self.name}` {self.type}{comment} CODEC({self.codec})"


@dataclass(frozen=True, slots=True)
class Table:
    """One MergeTree table, a partition a UTC day of append; `time` names its time column."""

    name: str
    columns: tuple[Column, ...]
    order: tuple[str, ...]
    doc: str
    time: str = "at"

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in the order of the table."""
        return tuple(column.name for column in self.columns)

    def ddl(self) -> str:
        """CREATE TABLE, if there is none."""
        # The projection holds a few rows a part: how far the table holds each log, and what it
        # knows of each pool, without reading the table's own rows (H2).
        places = (
            f"PROJECTION places (SELECT topic, partition, pool, max(offset), max({self.time})"
            " GROUP BY topic, partition, pool)"
        )
        columns = ",\n    ".join([*(column.ddl() for column in self.columns), places])
        return (
            f"CREATE TABLE IF NOT EXISTS `{self.name}` (\n    {columns}\n)\n"
            "ENGINE = MergeTree PARTITION BY toYYYYMMDD(append_time)\n"
            f"ORDER BY ({', '.join(f'`{name}`' for name in self.order)})\n"
            f"COMMENT {quoted(self.doc)}"
        )


@dataclass(frozen=True, slots=True)
class View:
    """One view, for people who ask."""

    name: str
    select: str
    doc: str

    def ddl(self) -> str:
        """CREATE VIEW, made anew so that it is always this version's."""
        return f"CREATE OR REPLACE VIEW `{self.name}` AS {self.select} COMMENT {quoted(self.doc)}"


def quoted(text: str) -> str:
    """A string literal of ClickHouse's SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
