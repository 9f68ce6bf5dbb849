"""`tokenweir sql` reads, and only reads."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.clickhouse

COMMAND = [sys.executable, "-c", "from tokenweir.cli import main; main()", "sql"]


def sql(
    url: str, folder: Path, *arguments: str, text: str = ""
) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": os.environ["PATH"], "TOKENWEIR_CLICKHOUSE": url}
    return subprocess.run(
        [*COMMAND, *arguments],
        input=text,
        text=True,
        capture_output=True,
        env=environ,
        cwd=folder,
        timeout=150,
    )


def test_a_query_is_a_table_or_exact_json(clickhouse_url: str, tmp_path: Path) -> None:
    query = "SELECT 'α' AS name, toUInt64(18446744073709551615) AS n, toDecimal64(0.10, 2) AS price"
    done = sql(clickhouse_url, tmp_path, query)
    assert done.stdout.split() == ["name", "n", "price", "α", "18446744073709551615", "0.10"]
    done = sql(clickhouse_url, tmp_path, query, "--output", "json")
    assert json.loads(done.stdout) == [{"name": "α", "n": 2**64 - 1, "price": "0.10"}]


def test_a_query_may_come_from_standard_input(clickhouse_url: str, tmp_path: Path) -> None:
    done = sql(clickhouse_url, tmp_path, "-", "-o", "json", text="SELECT 1 AS one")
    assert json.loads(done.stdout) == [{"one": 1}]


def test_times_say_their_zone(clickhouse_url: str, tmp_path: Path) -> None:
    query = "SELECT toDateTime64('2026-01-02 03:04:05.678', 3, 'UTC') AS at"
    done = sql(clickhouse_url, tmp_path, query, "-o", "json")
    assert json.loads(done.stdout) == [{"at": "2026-01-02T03:04:05.678000+00:00"}]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE t (n Int64) ENGINE = MergeTree ORDER BY n",
        "DROP DATABASE default",
        "SET readonly = 0",
        "SELECT 1 SETTINGS readonly = 0",
    ],
)
def test_what_writes_is_refused(statement: str, clickhouse_url: str, tmp_path: Path) -> None:
    done = sql(clickhouse_url, tmp_path, statement)
    assert done.returncode == 1
    assert "readonly" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_error_is_the_engines_own_words_on_one_line(clickhouse_url: str, tmp_path: Path) -> None:
    done = sql(clickhouse_url, tmp_path, "SELECT nothing FROM nowhere")
    assert (done.returncode, done.stdout) == (1, "")
    assert "nowhere" in done.stderr
    assert done.stderr.count("\n") == 1
