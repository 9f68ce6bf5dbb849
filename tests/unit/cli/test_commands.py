"""What a stranger meets first: help, wrong usage, and bad files; no broker is needed."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tokenweir.cli import main
from tokenweir.cli.commands import tokenweir

COMMAND = [sys.executable, "-c", "from tokenweir.cli import main; main()"]


def run(folder: Path, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    environ = {name: os.environ[name] for name in os.environ if not name.startswith("TOKENWEIR_")}
    return subprocess.run(
        [*COMMAND, *arguments],
        input=text,
        text=True,
        capture_output=True,
        env=environ,
        cwd=folder,
        timeout=150,
    )


def names_of(group: click.Group) -> Iterator[str]:
    """What can be typed behind the group's name."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from (f"{name} {inner}" for inner in names_of(command))
        else:
            yield name


@pytest.mark.parametrize("command", list(names_of(tokenweir)))
def test_every_command_has_help_with_an_example(command: str) -> None:
    done = CliRunner().invoke(tokenweir, [*command.split(), "--help"], prog_name="tokenweir")
    assert done.exit_code == 0
    assert f"Example:\n    tokenweir {command}" in done.output


def test_where_only_a_gateway_is_installed_it_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "click", None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert said == "click is missing: pip install 'tokenweir[cli]' has what this command needs\n"


def test_help_loads_nothing_heavy() -> None:
    heavy = "aiokafka pydantic rich numpy clickhouse_connect fastavro yaml asyncio"
    code = (
        "import sys; from tokenweir.cli.commands import tokenweir; "
        f"print([m for m in '{heavy}'.split() if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.parametrize("arguments", ["foo", "apply", "tail --count 0", "get pools -o xml"])
def test_wrong_usage_ends_with_2(arguments: str, tmp_path: Path) -> None:
    done = run(tmp_path, *arguments.split())
    assert done.returncode == 2
    assert "Error:" in done.stderr


@pytest.mark.parametrize("command", ["get pools", "tail", "sql x", "status"])
def test_where_nothing_is_known_one_error_says_the_three_ways(command: str, tmp_path: Path) -> None:
    done = run(tmp_path, *command.split())
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "or start a stack with `python -m streams up`" in done.stderr + done.stdout


def test_what_does_not_answer_is_one_line(tmp_path: Path) -> None:
    done = run(tmp_path, "get", "pools", "--brokers", "127.0.0.1:1")
    assert done.returncode == 1
    assert done.stderr.startswith("Kafka at 127.0.0.1:1 does not answer: start it")
    assert done.stderr.count("\n") == 1
    url = "http://me:secret@127.0.0.1:1"
    done = run(tmp_path, "sql", "SELECT 1", "--clickhouse", url)
    assert done.stderr.startswith("ClickHouse at http://127.0.0.1:1 does not answer: start it")


def test_a_bad_spec_is_told_whole_before_anything_is_asked_for(tmp_path: Path) -> None:
    done = run(tmp_path, "apply", "-f", "-", text="pool: a/b\ncapacity: {tokens_per_s: 1 km}\n")
    assert done.returncode == 1
    first, second = done.stderr.splitlines()
    assert first.startswith("<stdin>:1: pool: value 'a/b': letters, digits")
    assert second.startswith("<stdin>:2: capacity.tokens_per_s: value '1 km': more than 0 tokens")


def test_a_dry_run_without_brokers_checks_the_file(tmp_path: Path) -> None:
    text = "pool: chat\ncapacity: {tokens_per_s: 1}\n"
    done = run(tmp_path, "apply", "-f", "-", "--dry-run", text=text)
    assert (done.returncode, done.stderr) == (
        0,
        "no brokers known: checked, and compared with nothing\n",
    )


@pytest.mark.parametrize("content", [b"\xff\xfe", b""])
def test_a_file_that_is_no_spec_is_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "pool.yaml").write_bytes(content)
    done = run(tmp_path, "apply", "-f", "pool.yaml", "--dry-run")
    assert done.returncode == 1
    assert done.stderr.startswith("pool.yaml:")
    assert done.stderr.count("\n") == 1
