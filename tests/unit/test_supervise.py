"""Child processes: their ends, their logs, and what happens to them when we die."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from streams.supervise import Child, ChildError


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


SLEEP = python("import time; time.sleep(60)")
DEAF = python(
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "print('deaf', flush=True); time.sleep(60)"
)
PARENT = """
import sys, time
from pathlib import Path
from streams.supervise import Child
child = Child("c", sys.argv[2:], log=Path(sys.argv[1]), grace_s=0.5)
print(child.start(), flush=True)
time.sleep(60)
"""


def until(true: Callable[[], bool], what: str, deadline_s: float = 60) -> None:
    end_s = time.monotonic() + deadline_s
    while not true():
        assert time.monotonic() < end_s, f"not within {deadline_s} s: {what}"
        time.sleep(0.02)


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_child_runs_until_it_is_stopped(tmp_path: Path) -> None:
    child = Child("sleeper", SLEEP, log=tmp_path / "log")
    before_s = time.time()
    pid = child.start()
    assert (child.running, child.pid, gone(pid)) == (True, pid, False)
    assert before_s <= (child.started_at_s or 0) <= time.time()
    assert child.stop() == -signal.SIGTERM
    assert (child.running, child.pid, gone(pid)) == (False, pid, True)


def test_a_child_that_ends_by_itself_leaves_its_exit_code_and_its_output(tmp_path: Path) -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    child = Child("short", python(code), log=tmp_path / "log")
    child.start()
    assert child.wait(60)
    assert child.exit_code == 3
    assert sorted(child.tail().splitlines()) == ["err", "out"]
    assert child.stop() == 3


def test_a_child_that_does_not_listen_is_killed_after_the_grace(tmp_path: Path) -> None:
    child = Child("deaf", DEAF, log=tmp_path / "log")
    child.start()
    until(lambda: "deaf" in child.tail(), "the child ignores SIGTERM")
    assert child.stop(grace_s=0.3) == -signal.SIGKILL


def test_a_child_can_be_killed_and_started_again_and_keeps_its_last_log(tmp_path: Path) -> None:
    child = Child(
        "twice",
        python("import time; print('hi', flush=True); time.sleep(60)"),
        log=tmp_path / "log",
    )
    first = child.start()
    until(lambda: "hi" in child.tail(), "the first output")
    assert child.kill() == -signal.SIGKILL
    assert child.start() != first
    until(lambda: "hi" in child.tail(), "the second output")
    assert (tmp_path / "log.1").read_text() == "hi\n"
    child.stop()


def test_what_a_child_started_ends_with_it(tmp_path: Path) -> None:
    code = f"import subprocess; p = subprocess.Popen({SLEEP!r}); print(p.pid, flush=True); p.wait()"
    child = Child("parent", python(code), log=tmp_path / "log")
    child.start()
    until(lambda: child.tail().strip().isdecimal(), "the grandchild's id")
    grandchild = int(child.tail())
    child.stop()
    until(lambda: gone(grandchild), "the end of the grandchild")


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("command", [SLEEP, DEAF], ids=["listening", "deaf"])
def test_a_child_does_not_outlive_its_parent(
    tmp_path: Path, ending: signal.Signals, command: list[str]
) -> None:
    with subprocess.Popen(
        [*python(PARENT), str(tmp_path / "log"), *command],
        stdout=subprocess.PIPE,
        text=True,
        stderr=subprocess.DEVNULL,
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        keeper = psutil.Process(pid).ppid()
        parent.send_signal(ending)
        until(lambda: gone(pid), "the end of the child")
        until(lambda: gone(keeper), "the end of its keeper")


@pytest.mark.skipif(sys.platform != "linux", reason="needs a parent-death signal")
def test_a_child_does_not_outlive_its_keeper(tmp_path: Path) -> None:
    child = Child("sleeper", SLEEP, log=tmp_path / "log")
    pid = child.start()
    os.kill(psutil.Process(pid).ppid(), signal.SIGKILL)
    assert child.wait(60)
    until(lambda: gone(pid), "the end of the child")
    assert child.exit_code == -signal.SIGKILL


def test_a_log_never_grows_past_its_bound(tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = Child("talker", python("for i in range(20000): print(i)"), log=log, log_bytes=70_000)
    child.start()
    assert child.wait(60)
    assert log.stat().st_size <= 70_000
    assert (tmp_path / "log.1").stat().st_size <= 70_000
    assert child.tail(1) == "19999"


def test_a_command_that_is_not_there_is_named(tmp_path: Path) -> None:
    child = Child("history", ["/no/such/command"], log=tmp_path / "log")
    with pytest.raises(ChildError, match=r"history cannot be started.*no/such/command"):
        child.start()
    assert not child.running
    assert child.stop() is None


def test_a_child_that_runs_cannot_be_started_twice(tmp_path: Path) -> None:
    child = Child("sleeper", SLEEP, log=tmp_path / "log")
    child.start()
    with pytest.raises(ChildError, match="runs already as process"):
        child.start()
    child.kill()


def test_a_child_sees_the_environment_and_the_folder_it_was_given(tmp_path: Path) -> None:
    code = "import os; print(os.environ['COLOUR'], os.getcwd())"
    child = Child("env", python(code), log=tmp_path / "log", env={"COLOUR": "red"}, cwd=tmp_path)
    child.start()
    assert child.wait(60)
    assert child.tail() == f"red {tmp_path}"
