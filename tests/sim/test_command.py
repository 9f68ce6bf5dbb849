"""The command: exit codes, JSON, the table of seconds, and the plot."""

import csv
import json
from pathlib import Path

import pytest

from tokenweir.cli.commands import tokenweir
from tokenweir.errors import BadInput

TEXT = """
scenario: small
pool:
  pool: chat
  capacity: {tokens_per_s: 20k/s}
  tenants: {acme: {class: guaranteed, baseline: 8k/s}}
duration: 6 s
workloads: {acme: {rate: 3, prompt: 200, output: 20}}
figures:
  refused: {value: "{with acme refused}", published: 0, most: %s}
  never measured: {value: "{with acme ttft.p99 never}", unit: s}
phases: {never: {from: 6 s, to: 6 s}}
"""


def simulate(*arguments: str) -> int:
    code: int = tokenweir.main(["simulate", *arguments], standalone_mode=False) or 0
    return code


def scenario(folder: Path, most: float) -> str:
    file = folder / "small.yaml"
    file.write_text(TEXT % most)
    return str(file)


def test_it_exits_0_within_the_bounds_and_1_outside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert simulate(scenario(tmp_path, 1000)) == 0
    assert "OUTSIDE" not in capsys.readouterr().out
    assert simulate(scenario(tmp_path, -1)) == 1
    shown = capsys.readouterr()
    assert "OUTSIDE" in shown.out
    assert "outside of its bounds: refused" in shown.err


@pytest.mark.parametrize("option", ["--csv", "--plot"])
def test_what_could_not_be_written_is_told_before_the_run(tmp_path: Path, option: str) -> None:
    with pytest.raises(BadInput, match="a folder that is there"):
        simulate(str(tmp_path / "no scenario"), option, str(tmp_path / "none" / "file"))


def test_json_has_the_same_for_scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate(scenario(tmp_path, 1000), "--output", "json", "--seed", "5") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["seed"] == 5
    assert said["holds"] is True
    refused, never = said["figures"]
    assert refused["most"] == 1000
    assert refused["published"] == "0"
    assert never["value"] is None  # there was nothing to measure


def test_the_seconds_are_a_table_and_the_plot_is_the_same_file_twice(tmp_path: Path) -> None:
    file, table = scenario(tmp_path, 1000), tmp_path / "seconds.csv"
    plots = [tmp_path / "a.png", tmp_path / "b.png"]
    for plot in plots:
        assert simulate(file, "--csv", str(table), "--plot", str(plot)) == 0
    assert plots[0].read_bytes() == plots[1].read_bytes()
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert {row["tenant"] for row in rows} == {"acme", "pool"}
    assert [int(row["second"]) for row in rows if row["tenant"] == "acme"] == list(range(6))
    assert sum(float(row["requests"]) for row in rows if row["tenant"] == "acme") > 5
