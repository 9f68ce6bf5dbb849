"""Settle with each way to keep it, and cut: `python -m bench.spool`.

Ours writes a row into a file at the settling (it outlives the process) and reports into SQLite at
the cut. Beside it: memory only; a row of SQLite in WAL mode a settling; and a file with fdatasync,
which outlives a power cut too. The ways take turns, and medians over the turns are printed.
"""

import os
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from marshal import dumps
from pathlib import Path
from statistics import median

import click

from tests.unit.gateway.made import POOL, ask, obeying
from tokenweir.gateway import ledger
from tokenweir.gateway.disk_spool import DiskSpool
from tokenweir.gateway.monotonic import boot_ms, wall_ms
from tokenweir.gateway.pool import PoolGate
from tokenweir.gateway.rows import Row
from tokenweir.gateway.settled import FORMAT
from tokenweir.gateway.spool import Outbox, Spool
from tokenweir.gateway.spool_folder import SpoolFolder

ROWS = 1_000  # a cut
TURNS = 3
BYTES = 10**9
LEASE = ("ela", 10**9, 10**9, 0)


class InSqlite(list[Row]):
    """Each row in a transaction of its own; NORMAL: it waits for the disk at checkpoints only."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.database = sqlite3.connect(path, isolation_level=None)
        self.database.execute("PRAGMA journal_mode = WAL")
        self.database.execute("PRAGMA synchronous = NORMAL")
        self.database.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, row BLOB)")

    def append(self, row: Row) -> None:
        super().append(row)
        self.database.execute("INSERT INTO rows (row) VALUES (?)", (dumps(row, FORMAT),))


class Synced(list[Row]):
    """Each row in a file, and on the disk itself."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def append(self, row: Row) -> None:
        super().append(row)
        os.write(self.file, dumps(row, FORMAT))
        os.fdatasync(self.file)


Figures = tuple[float, float, float]  # settle: median, p99; adding a cut: median; µs


def run(gate: PoolGate, spool: Outbox, count: int) -> Figures:
    """Settle so many requests, with a cut each thousand."""
    settles, adds = [], []
    for number in range(1, count + 1):
        request = ask(gate, 1000, LEASE[0], 100)
        settles.append(timed(lambda request=request: settle(gate, request)))  # type: ignore[misc]
        if number % ROWS == 0:
            cuts = gate.cut(1000)
            adds.append(timed(lambda cuts=cuts: spool.add(cuts)))  # type: ignore[misc]
            while spool.head() is not None:
                spool.acknowledged()
    settles.sort()
    return settles[count // 2], settles[int(count * 0.99)], median(adds)


def settle(gate: PoolGate, request: object) -> None:
    ledger.settle(gate, request, 1000, 50, 0, 50)  # type: ignore[arg-type]


def timed(work: Callable[[], None]) -> float:
    start = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - start) / 1000


def in_memory(_: Path, count: int) -> Figures:
    return run(obeying(LEASE), Spool(BYTES), count)


def ours(path: Path, count: int) -> Figures:
    with closing(SpoolFolder(path / "spool", BYTES, boot_ms, wall_ms)) as folder:
        spool, gate = DiskSpool(folder, POOL, "edge"), obeying(LEASE)
        gate.rows = spool.settled
        return run(gate, spool, count)


def sqlite(path: Path, count: int) -> Figures:
    gate, rows = obeying(LEASE), InSqlite(path / "rows.sqlite")
    with closing(rows.database):
        gate.rows = rows
        return run(gate, Spool(BYTES), count)


def synced(path: Path, count: int) -> Figures:
    gate, rows = obeying(LEASE), Synced(path / "rows")
    gate.rows = rows
    figures = run(gate, Spool(BYTES), max(count // 10, ROWS))
    os.close(rows.file)
    return figures


WAYS = {
    "memory only": in_memory,
    "spool on disk": ours,
    "a row of SQLite each": sqlite,
    "write and fdatasync": synced,
}


@click.command()
@click.option(
    "--requests", default=20_000, type=click.IntRange(ROWS), help="For each way and turn."
)
def main(requests: int) -> None:
    """Print what a settling costs, and what the adding of a report of 1 000 rows does."""
    found: dict[str, list[Figures]] = {name: [] for name in WAYS}
    for _ in range(TURNS):
        for name, way in WAYS.items():
            with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
                found[name].append(way(Path(folder), requests))
    click.echo(f"{'µs':24}{'settle':>10}{'p99':>10}{'add a cut':>12}")
    for name, turns in found.items():
        figures = [median(column) for column in zip(*turns, strict=True)]
        click.echo(f"{name:24}{figures[0]:10.2f}{figures[1]:10.2f}{figures[2]:12.0f}")


if __name__ == "__main__":
    main()
