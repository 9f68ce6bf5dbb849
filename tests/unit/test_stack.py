import fcntl
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pytest

from streams.config import Config
from streams.parts import Part, environment
from streams.stack import Stack
from streams.stack_state import find_running
from tokenweir.errors import BadInput


@dataclass
class Process:
    """Runs until `end`; starts as often as it is told, or fails."""

    pid: int = 0
    running: bool = False
    starts: list[float] = field(default_factory=list)
    broken: bool = False
    clock_s: float = 0.0

    def start(self) -> None:
        self.starts.append(self.clock_s)
        if self.broken:
            raise RuntimeError("the port is taken")
        self.pid, self.running = self.pid + 1, True

    def stop(self) -> None:
        self.running = False


@pytest.fixture
def process() -> Process:
    return Process()


@pytest.fixture
def stack(tmp_path: Path, process: Process) -> Stack:
    part = Part("control-0", process, tmp_path / "control-0.log")
    process.start()
    process.starts.clear()
    return Stack(Config(data=tmp_path), {}, parts=[part])


def tend(stack: Stack, process: Process, until_s: float) -> list[str]:
    """Tend once a tenth of a second."""
    lines: list[str] = []
    while process.clock_s < until_s:
        process.clock_s = round(process.clock_s + 0.1, 1)
        lines += stack.tend(process.clock_s)
    return lines


def test_what_runs_is_left_alone(stack: Stack, process: Process) -> None:
    assert tend(stack, process, 60) == []
    assert process.starts == []


def test_what_was_killed_runs_again_at_once(stack: Stack, process: Process) -> None:
    process.running = False

    assert tend(stack, process, 1) == ["control-0 had ended and runs again as process 2"]
    assert process.starts == [0.1]


def test_what_cannot_start_is_tried_with_growing_patience(stack: Stack, process: Process) -> None:
    process.running, process.broken = False, True

    lines = tend(stack, process, 70)

    # at once, then after 1, 2, 4, 8, 16 and 30 s
    assert process.starts == pytest.approx([0.1, 1.1, 3.1, 7.1, 15.1, 31.1, 61.1], abs=0.5)
    assert "control-0 cannot be started again, next try in 1 s: the port is taken" in lines


def test_what_has_run_for_long_is_started_at_once_again(stack: Stack, process: Process) -> None:
    process.running = False
    tend(stack, process, 30)
    process.running = False
    tend(stack, process, 31)

    assert process.starts == [0.1, 30.1]


def test_what_ends_again_and_again_is_not_started_in_a_hurry(
    stack: Stack, process: Process
) -> None:
    for second in range(1, 11):
        process.running = False
        tend(stack, process, second)

    assert len(process.starts) <= 4


def test_what_runs_stands_in_the_state_file(stack: Stack, process: Process, tmp_path: Path) -> None:
    process.running = False
    stack.tend(1.0)

    state = json.loads((tmp_path / "stack.json").read_text())

    assert state["processes"] == [
        {
            "name": "control-0",
            "pid": 2,
            "state": "running",
            "log": str(tmp_path / "control-0.log"),
        }
    ]


def hold(data: Path) -> IO[str]:
    """What a running stack does to its folder."""
    lock = (data / "stack.lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def test_a_second_stack_of_one_folder_is_told_what_to_do(tmp_path: Path) -> None:
    with hold(tmp_path), pytest.raises(BadInput) as error:
        Stack(Config(data=tmp_path), {}).start()

    assert "a stack runs already" in str(error.value)
    assert "TOKENWEIR_DATA" in str(error.value)


def test_a_running_stack_is_found_with_its_addresses(tmp_path: Path) -> None:
    state = {"brokers": "127.0.0.1:1", "clickhouse": "http://127.0.0.1:2"}
    with hold(tmp_path):
        (tmp_path / "stack.json").write_text(json.dumps(state))
        found = find_running(Config(data=tmp_path))

    assert found == Config("127.0.0.1:1", "http://127.0.0.1:2", tmp_path)


def test_what_a_killed_stack_left_behind_is_not_taken_for_one(tmp_path: Path) -> None:
    (tmp_path / "stack.json").write_text("{}")

    assert find_running(Config(data=tmp_path)) is None


def test_a_stack_that_is_just_starting_is_waited_for_by_the_person(tmp_path: Path) -> None:
    with hold(tmp_path), pytest.raises(BadInput, match="just starting"):
        find_running(Config(data=tmp_path))


def test_a_stack_of_which_all_runs_elsewhere_leaves_the_folder_alone(tmp_path: Path) -> None:
    config = Config(brokers="127.0.0.1:1", clickhouse="http://127.0.0.1:2", data=tmp_path)
    with hold(tmp_path), Stack(config, {}, workers=0) as stack:
        assert stack.empty

    assert not (tmp_path / "stack.json").exists()


def test_children_read_the_configuration_that_the_stack_has(tmp_path: Path) -> None:
    config = Config("b:1", "http://c:2", tmp_path, "run-", "app", 4, 1)

    given = environment({"PATH": "/bin", "TOKENWEIR_BROKERS": "old:1"}, config, worker="3")

    assert given["PATH"] == "/bin"
    assert given["TOKENWEIR_BROKERS"] == "b:1"
    assert given["TOKENWEIR_WORKER"] == "3"
    assert given["TOKENWEIR_PARTITIONS"] == "4"
