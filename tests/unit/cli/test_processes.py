"""A process lives when its id does, whatever the stack's file says."""

import os
import subprocess
import sys

from tokenweir.cli.watch.processes import lives, rows_of


def test_a_process_that_runs_lives_and_one_that_ended_does_not() -> None:
    assert lives(os.getpid())
    child = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.read()  # until it closes at the child's end
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not lives(child.pid)  # it has ended, and nobody has asked how yet
    child.wait()
    child.stdout.close()
    assert not lives(child.pid)
    assert not lives(None)


def test_what_the_stack_says_is_believed_only_while_the_process_lives() -> None:
    stack = {
        "processes": [
            {"name": "a", "pid": os.getpid(), "state": "running", "log": "a.log"},
            {"name": "b", "pid": 2**22 + 1, "state": "running", "log": "b.log"},
            {"name": "c", "pid": 2**22 + 1, "state": "restarting", "log": "c.log"},
        ]
    }
    assert [row["state"] for row in rows_of(stack)] == ["running", "dead", "restarting"]
    assert rows_of({}) == []
