"""In which hours of the week a pool is used: the query, and `tokenweir usage`."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.unit.history.made import NOON_MS, POOL, Increment, record, report
from tokenweir.history.client import connect
from tokenweir.history.insert import insert
from tokenweir.history.instants import instant_of
from tokenweir.history.queries import UsageByHourOfWeek, read
from tokenweir.history.rows import Place
from tokenweir.history.store import checksums, open_usage, prepare

pytestmark = pytest.mark.clickhouse

HOUR_MS = 3_600_000
WEEK_MS = 168 * HOUR_MS
COMMAND = [sys.executable, "-c", "from tokenweir.cli import main; main()", "usage", POOL]
BEGAN = "2020-01-01T00:00"


@pytest.fixture
def used(database: str) -> str:
    """A history of three hours: two of the same hour of the week, and one ten hours later."""
    with connect(database) as client:
        prepare(client)
        lane = open_usage(client, Place("usage", 0), 1)
        moments = (NOON_MS, NOON_MS + WEEK_MS, NOON_MS + WEEK_MS + 10 * HOUR_MS)
        lane.receive(
            [
                record(place, report(place + 1, *_increments(place)), append_ms=at_ms + 1_000)
                for place, at_ms in enumerate(moments)
            ],
            0.0,
        )
        while lane.waiting:
            for block in lane.next_batch(lambda entries: checksums(client, entries)).blocks:
                insert(client, lane.place, block)
    return database


def _increments(place: int) -> Sequence[Increment]:
    refused = Increment(f"no{place}", tenant="zeta", status="refused", refused_tokens=40)
    return (Increment(f"yes{place}", uncached=10, cached=5, out=7), refused)


def test_hours_are_summed_over_the_weeks(used: str) -> None:
    noon = instant_of(NOON_MS)
    with connect(used) as client:
        until = instant_of(NOON_MS + 2 * WEEK_MS)
        first, late = sorted(
            read(client, UsageByHourOfWeek(POOL, noon, until)), key=lambda row: -row.requests
        )
    assert (first.day, first.hour) == (noon.isoweekday(), 12)
    assert (first.tenants, first.requests, first.refused) == (2, 4, 2)
    assert (first.input_tokens, first.output_tokens, first.refused_tokens) == (30, 14, 80)
    assert (late.day, late.hour, late.requests) == (noon.isoweekday(), 22, 2)


def test_hours_are_those_of_the_zones_clock(used: str) -> None:
    noon = instant_of(NOON_MS)
    with connect(used) as client:
        until = instant_of(NOON_MS + 2 * WEEK_MS)
        found = read(client, UsageByHourOfWeek(POOL, noon, until, "Asia/Kolkata"))
    tomorrow = noon.isoweekday() % 7 + 1
    # 12:00 is 17:30 there, and 22:00 is half past three on the next day.
    assert {(row.day, row.hour) for row in found} == {(noon.isoweekday(), 17), (tomorrow, 3)}


def test_the_command_shows_hours_and_tenants_as_a_table_or_exactly(
    used: str, tmp_path: Path
) -> None:
    table = usage(used, tmp_path, "--by", "hour-of-week")
    assert table.stdout.split()[:2] == ["HOUR", "TENANTS"]
    assert f"{instant_of(NOON_MS):%a} 12:00" in table.stdout
    rows = json.loads(usage(used, tmp_path, "--output", "json").stdout)
    assert [(row["tenant"], row["requests"], row["refused"]) for row in rows] == [
        ("acme", 3, 0),
        ("zeta", 3, 3),
    ]


def usage(url: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*COMMAND, "--since", BEGAN, *arguments],
        text=True,
        capture_output=True,
        env={"PATH": os.environ["PATH"], "TOKENWEIR_CLICKHOUSE": url},
        cwd=folder,
        timeout=150,
    )
    assert done.returncode == 0, done.stderr
    return done
