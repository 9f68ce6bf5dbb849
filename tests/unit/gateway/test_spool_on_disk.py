"""A life that ends without closing is told by the next one: once, under its own name, in time.

A process is taken to be killed by letting go of its descriptors and no more.
"""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.gateway.made import POOL, ask, give, obeying, settle
from tokenweir.errors import BadInput
from tokenweir.gateway.disk_spool import OLDEST_MS, DiskSpool, Shelf, remains
from tokenweir.gateway.pool import PoolGate
from tokenweir.gateway.spool_folder import SpoolFolder
from tokenweir.records.usage import RequestsBlock, UsageReport
from tokenweir.wire import decode_as

LEASE = ("gua", 1000, 1000, 100)
MEGABYTE = 1_000_000


class Times:
    """The machine's own clock, and the wall's a million seconds ahead."""

    own_ms = 0
    wall_ms = 10**9

    def own(self) -> int:
        return self.own_ms

    def wall(self) -> int:
        return self.wall_ms

    def pass_ms(self, ms: int) -> None:
        self.own_ms += ms
        self.wall_ms += ms


class Life:
    """One process: a gate whose rows and reports are on disk."""

    def __init__(self, path: Path, times: Times, most_bytes: int = MEGABYTE) -> None:
        self.times = times
        self.folder = SpoolFolder(path, most_bytes, times.own, times.wall)
        self.gate = obeying(LEASE)
        self.gate.acknowledged(10**6 + times.own_ms, times.own_ms, times.own_ms)
        self.gate.gateway = f"edge-{times.own_ms}"
        give(self.gate, times.own_ms, LEASE)
        self.spool = DiskSpool(self.folder, POOL, self.gate.gateway)
        self.gate.rows = self.spool.settled
        times.pass_ms(1000)

    def settle(self, used: int) -> str:
        request = ask(self.gate, self.times.own_ms, "gua", 1)
        settle(self.gate, request, self.times.own_ms, used)
        return request.id

    def cut(self, closing: bool = False) -> None:
        self.spool.add(self.gate.cut(self.times.own_ms, closing))

    def kill(self) -> None:
        self.folder.close()


def told(shelf: Shelf | DiskSpool, now_ms: int) -> Iterator[UsageReport]:
    """Send and acknowledge everything."""
    while (head := shelf.head()) is not None:
        yield decode_as(UsageReport, head.aged(now_ms))
        shelf.acknowledged()


def ids(report: UsageReport) -> list[str]:
    return list(decode_as(RequestsBlock, report.requests).id) if report.requests else []


@pytest.fixture
def times() -> Times:
    return Times()


def left_to(path: Path, times: Times) -> list[UsageReport]:
    """What the next process sends of its predecessors'."""
    folder = SpoolFolder(path, MEGABYTE, times.own, times.wall)
    reports = list(told(remains(folder), times.own_ms))
    folder.close()
    return reports


def test_what_is_settled_outlives_the_process(tmp_path: Path, times: Times) -> None:
    life = Life(tmp_path, times)
    first = [life.settle(5), life.settle(6)]
    life.cut()
    second = [life.settle(7)]
    life.kill()
    reports = left_to(tmp_path, times)
    assert [report.gateway for report in reports] == [life.gate.gateway] * 2
    assert [report.sequence for report in reports] == [1, 2]
    assert [report.closing for report in reports] == [False, True]
    assert [ids(report) for report in reports] == [first, second]
    assert [report.totals.tokens_uncached for report in reports] == [[11], [7]]
    assert reports[1].applied == life.gate.leases.at_ms
    assert left_to(tmp_path, times) == []


def test_what_was_acknowledged_is_not_told_again(tmp_path: Path, times: Times) -> None:
    life = Life(tmp_path, times)
    life.settle(5)
    life.cut()
    assert [r.sequence for r in told(life.spool, times.own_ms)] == [1]
    life.kill()
    (closing,) = left_to(tmp_path, times)
    assert (closing.sequence, closing.closing, ids(closing)) == (2, True, [])


def test_what_was_sent_and_not_acknowledged_is_told_unchanged(tmp_path: Path, times: Times) -> None:
    life = Life(tmp_path, times)
    life.settle(5)
    life.cut()
    head = life.spool.head()
    assert head is not None
    sent = decode_as(UsageReport, head.aged(times.own_ms))
    life.kill()
    assert left_to(tmp_path, times)[0] == sent


def test_a_kill_between_the_report_and_the_emptying_of_the_file_tells_nothing_twice(
    tmp_path: Path, times: Times, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life(tmp_path, times)
    life.settle(5)
    monkeypatch.setattr(type(life.spool.settled), "begin", lambda *_: None)
    life.cut()
    life.kill()
    assert [len(ids(report)) for report in left_to(tmp_path, times)] == [1, 0]


def test_half_a_row_at_the_end_is_left_out(tmp_path: Path, times: Times) -> None:
    life = Life(tmp_path, times)
    whole = life.settle(5)
    life.settle(6)
    life.kill()
    (file,) = tmp_path.glob("settled-*")
    os.truncate(file, file.stat().st_size - 3)
    (report,) = left_to(tmp_path, times)
    assert ids(report) == [whole]


def test_a_life_that_closed_or_never_said_anything_needs_no_closing(
    tmp_path: Path, times: Times
) -> None:
    life = Life(tmp_path, times)
    life.cut(closing=True)
    assert [report.closing for report in told(life.spool, times.own_ms)] == [True]
    life.kill()
    Life(tmp_path, times).kill()
    assert left_to(tmp_path, times) == []


def test_closing_unsent_is_sent_by_the_next(tmp_path: Path, times: Times) -> None:
    life = Life(tmp_path, times)
    life.cut()
    life.cut(closing=True)
    life.kill()
    assert [(r.sequence, r.closing) for r in left_to(tmp_path, times)] == [(1, False), (2, True)]


def test_five_lives_are_told_in_their_order(tmp_path: Path, times: Times) -> None:
    lives = []
    for _ in range(5):
        life = Life(tmp_path, times)
        lives.append(life.gate.gateway)
        life.settle(5)
        life.cut()
        life.settle(6)
        life.kill()
    reports = left_to(tmp_path, times)
    assert [r.gateway for r in reports] == [name for name in lives for _ in range(2)]
    assert [r.sequence for r in reports] == [1, 2] * 5


def test_the_wall_clock_tells_how_old_it_is(tmp_path: Path, times: Times) -> None:
    #  own  1 000 cut ── 1 400 settled ✗     then a boot: own clock anew, an hour later
    life = Life(tmp_path, times)
    life.cut()
    times.pass_ms(400)
    life.settle(5)
    life.kill()
    times.own_ms = 77
    times.wall_ms += 3_600_000
    assert [report.age_ms for report in left_to(tmp_path, times)] == [3_600_400, 3_600_000]


@pytest.mark.parametrize(
    ("jump_ms", "age_ms"), [(-3_600_000, 0), (400 * 86_400_000, OLDEST_MS)], ids=["back", "far on"]
)
def test_a_wall_clock_that_jumped_makes_no_report_unusable(
    tmp_path: Path, times: Times, jump_ms: int, age_ms: int
) -> None:
    life = Life(tmp_path, times)
    life.settle(5)
    life.cut()
    life.kill()
    times.wall_ms += jump_ms
    assert left_to(tmp_path, times)[0].age_ms == age_ms


def test_within_a_life_ages_are_by_its_own_clock(tmp_path: Path, times: Times) -> None:
    life = Life(tmp_path, times)
    for _ in range(3):
        life.cut()
    times.pass_ms(500)
    times.wall_ms -= 10**8
    assert [report.age_ms for report in told(life.spool, times.own_ms)] == [500] * 3


def test_it_is_bounded_over_all_lives(tmp_path: Path, times: Times) -> None:
    life = Life(tmp_path, times)
    life.cut()
    size = life.spool.bytes
    life.kill()
    life = Life(tmp_path, times, most_bytes=3 * size + size // 2)
    for _ in range(4):  # one report and a closing one are there from before
        life.cut()
    assert (len(life.spool), life.spool.losses.reports) == (1, 3)
    life.settle(5)
    life.cut(closing=True)
    assert [report.closing for report in told(life.spool, 0)] == [False, True]
    life.kill()


def test_a_lost_report_leaves_a_hole_and_the_sequence_goes_on(tmp_path: Path, times: Times) -> None:
    life = Life(tmp_path, times, most_bytes=0)
    life.cut()
    life.cut()
    life.kill()
    (closing,) = left_to(tmp_path, times)
    assert closing.sequence == 3


def test_a_disk_that_takes_nothing_stops_nothing(
    tmp_path: Path, times: Times, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life(tmp_path, times)
    life.cut()
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda *_: 3)
        life.settle(5)
        assert "is not kept" in life.spool.trouble
    life.folder.database.execute("PRAGMA query_only = 1")
    life.cut()
    assert "reports wait in memory" in life.spool.trouble
    life.folder.database.execute("PRAGMA query_only = 0")
    life.cut()
    assert [r.sequence for r in told(life.spool, times.own_ms)] == [1, 2, 3]
    assert (len(life.spool), life.spool.bytes, life.folder.bytes) == (0, 0, 0)
    life.cut()
    assert life.spool.trouble == ""
    life.kill()


def test_a_folder_is_for_one_process(tmp_path: Path, times: Times) -> None:
    code = (
        "import sys; from pathlib import Path; from tokenweir.gateway.spool_folder import *\n"
        "folder = SpoolFolder(Path(sys.argv[1]), 1, int, int); print(flush=True); input()"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(BadInput, match=f"process {other.pid} uses it; each process needs"):
            Life(tmp_path, times)
        other.kill()
    Life(tmp_path, times).kill()


def test_a_damaged_database_is_set_aside(tmp_path: Path, times: Times) -> None:
    (tmp_path / "reports.sqlite").write_bytes(b"no database" * 1000)
    life = Life(tmp_path, times)
    life.cut()
    assert len(life.spool) == 1
    life.kill()
    assert (tmp_path / "reports.sqlite.damaged").exists()


def test_a_database_of_another_version_is_left_alone(tmp_path: Path, times: Times) -> None:
    with sqlite3.connect(tmp_path / "reports.sqlite") as database:
        database.execute("PRAGMA user_version = 9")
    database.close()
    with pytest.raises(BadInput, match="version 9, this one reads 1"):
        Life(tmp_path, times)


def test_a_report_that_cannot_be_read_does_not_hold_up_the_others(
    tmp_path: Path, times: Times
) -> None:
    life = Life(tmp_path, times)
    life.cut()
    life.cut()
    life.folder.database.execute("UPDATE reports SET report = x'00' WHERE place = 1")
    life.folder.database.commit()
    life.kill()
    assert [report.sequence for report in left_to(tmp_path, times)] == [2, 3]


def test_a_place_that_cannot_be_written_is_named(times: Times) -> None:
    with pytest.raises(BadInput, match="spool_path is /dev/null/x: a folder to write in"):
        SpoolFolder(Path("/dev/null/x"), 1, times.own, times.wall)


def test_a_gate_without_a_folder_has_plain_rows() -> None:
    assert type(PoolGate(POOL, "edge").rows) is list
