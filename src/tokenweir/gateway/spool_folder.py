"""The folder of a spool on disk: a SQLite database, a file of settled rows a pool, and a lock.

Reports are written at the cut, in WAL mode; what has ended since is in a file (`settled`). Neither
waits for the disk itself: both are in the system's page cache, which outlives the process however
that ends. After a power cut the reports of the last seconds may be missing; none counts twice.
"""

import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from tokenweir.errors import BadInput
from tokenweir.gateway.report import LARGEST, Cut, Heading, reports
from tokenweir.gateway.settled import Settled, own_ms_of, read_settled
from tokenweir.wire import encode

LOG = logging.getLogger(__name__)
VERSION = 1
TABLES = """
CREATE TABLE reports (
    place INTEGER PRIMARY KEY AUTOINCREMENT, -- the order of sending
    pool TEXT NOT NULL,
    own_ms INTEGER NOT NULL, wall_ms INTEGER NOT NULL, -- of the cut, on both clocks
    size INTEGER NOT NULL, rows INTEGER NOT NULL, report BLOB NOT NULL);
CREATE TABLE lives ( -- of gateways that have not closed
    life INTEGER PRIMARY KEY, gateway TEXT NOT NULL, pool TEXT NOT NULL,
    next_sequence INTEGER NOT NULL, applied INTEGER NOT NULL);
PRAGMA user_version = 1;
"""


class SpoolFolder:
    """Holds what all pools of one gateway have to send; bounded in bytes over all of them.

    What a process left that ended without closing is made into closing reports when the folder is
    opened. Raises `BadInput` while another process has the folder open.
    """

    def __init__(
        self, path: Path, most_bytes: int, clock: Callable[[], int], wall: Callable[[], int]
    ) -> None:
        self.path, self.most_bytes = path, most_bytes
        self.clock, self.wall = clock, wall
        self._lock = _locked(path)
        self.database, self._checkpoints = _opened(path / "reports.sqlite")
        for life in self.database.execute("SELECT * FROM lives").fetchall():
            self._bury(*life)
        for file in path.glob("settled-*"):
            file.unlink()
        found = self.database.execute("SELECT place, size FROM reports ORDER BY place").fetchall()
        self.left = [place for place, _ in found]  # by earlier processes, oldest first
        self.bytes = sum(size for _, size in found)  # of all that waits
        self._settled: list[Settled] = []
        self._checking = threading.Lock()

    def begin_life(self, gateway: str, pool: str) -> int:
        """A gateway begins to report for a pool; returns the number of its life."""
        with self.database:
            made = self.database.execute(
                "INSERT INTO lives (gateway, pool, next_sequence, applied) VALUES (?, ?, 1, 0)",
                (gateway, pool),
            )
        return made.lastrowid or 0

    def settled(self, life: int) -> Settled:
        """The rows of that life that no report carries yet."""
        rows = Settled(self._path_of(life), self.wall)
        rows.begin(1, self.clock())
        self._settled.append(rows)
        return rows

    def keep(self, life: int, cuts: Iterable[Cut], wall_ms: int) -> list[int]:
        """Write reports that were cut at `wall_ms`, all or none; returns their places.

        Raises `sqlite3.Error` where the disk does not take them.
        """
        places = []
        with self.database:
            for cut in cuts:
                places.append(self._insert(cut, wall_ms))
                self._move_on(life, cut)
        return places

    def drop(self, place: int) -> None:
        """That report has been appended; raises `sqlite3.Error`."""
        with self.database:
            self.database.execute("DELETE FROM reports WHERE place = ?", (place,))

    def checkpoint(self) -> None:
        """Move what SQLite's log holds into its file. It waits for the disk, so give it a thread
        of its own, every few seconds.
        """
        with self._checking:
            self._checkpoints.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        """Let another process have the folder; what is in it stays. It waits for the disk."""
        for rows in self._settled:
            rows.close()
        with self._checking:
            self._checkpoints.close()
        self.database.close()
        os.close(self._lock)

    def _bury(self, life: int, gateway: str, pool: str, next_sequence: int, applied: int) -> None:
        """End a life that did not end itself: one more report, closing, of what was settled."""
        heading, rows = read_settled(self._path_of(life))
        if heading is None or heading.sequence < next_sequence:
            rows = []
        sequence = max(next_sequence, heading.sequence if heading else 1)
        own_ms, wall_ms = 0, self.wall()
        if heading is not None:
            own_ms = own_ms_of(rows[-1]) if rows else heading.own_ms
            wall_ms = heading.wall_ms + own_ms - heading.own_ms
        said = Heading(pool, gateway, applied, True, own_ms)
        # A gateway that has never reported is not known to anybody.
        cuts = reports(said, sequence, rows, [], LARGEST) if rows or sequence > 1 else []
        if rows:
            LOG.warning("gateway %s ended with %d rows untold: telling them", gateway, len(rows))
        with self.database:
            for cut in cuts:
                self._insert(cut, wall_ms)
            self.database.execute("DELETE FROM lives WHERE life = ?", (life,))

    def _path_of(self, life: int) -> Path:
        return self.path / f"settled-{life}"

    def _insert(self, cut: Cut, wall_ms: int) -> int:
        made = self.database.execute(
            "INSERT INTO reports (pool, own_ms, wall_ms, size, rows, report)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (cut.report.pool, cut.cut_ms, wall_ms, cut.size, cut.rows, encode(cut.report)),
        )
        return made.lastrowid or 0

    def _move_on(self, life: int, cut: Cut) -> None:
        if cut.report.closing:
            self.database.execute("DELETE FROM lives WHERE life = ?", (life,))
            return
        self.database.execute(
            "UPDATE lives SET next_sequence = ?, applied = ? WHERE life = ?",
            (cut.report.sequence + 1, cut.report.applied, life),
        )


def _locked(path: Path) -> int:
    """The lock on a folder, held until this descriptor is closed or the process ends."""
    import fcntl  # not on every system; and only those who ask for a spool on disk need it

    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise BadInput(f"spool_path is {path}: a folder to write in is needed: {error}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        owner = os.read(lock, 20).decode()
        os.close(lock)
        raise BadInput(
            f"spool_path is {path}: process {owner} uses it; each process needs a folder of its own"
        ) from error
    os.ftruncate(lock, 0)
    os.write(lock, str(os.getpid()).encode())
    return lock


def _opened(path: Path) -> tuple[sqlite3.Connection, sqlite3.Connection]:
    """Two connections: to write, and to move the log into the file in another thread."""
    try:
        database = _connected(path)
    except sqlite3.OperationalError as error:
        raise BadInput(f"spool_path is {path.parent}: SQLite cannot use it: {error}") from error
    except sqlite3.DatabaseError as error:  # after a power cut, or it is something else
        aside = path.with_name(f"{path.name}.damaged")
        LOG.error("%s is damaged (%s): it is set aside as %s", path, error, aside.name)
        path.replace(aside)
        for end in ("-wal", "-shm"):
            path.with_name(path.name + end).unlink(missing_ok=True)
        database = _connected(path)
    return database, sqlite3.connect(path, check_same_thread=False)


def _connected(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, check_same_thread=False)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        # NORMAL: the disk is waited for at checkpoints only, and those are in another thread.
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute("PRAGMA wal_autocheckpoint = 0")
        _check(database, path)
    except BaseException:
        database.close()
        raise
    return database


def _check(database: sqlite3.Connection, path: Path) -> None:
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version == 0:
        database.executescript(TABLES)
    elif version != VERSION:
        raise BadInput(
            f"spool_path is {path.parent}: of version {version}, this one reads {VERSION}; let the"
            " version that wrote it send what is there, or name another folder"
        )
    (state,) = database.execute("PRAGMA quick_check(1)").fetchone()
    if state != "ok":
        raise sqlite3.DatabaseError(state)
