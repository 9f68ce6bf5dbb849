"""Child processes that end when we do, with a log of bounded size.

    worker = Child("control", [sys.executable, "-m", "streams", "worker"], log=data / "control.log")
    worker.start()
    ...
    worker.stop(grace_s=10)

Calls block for a moment (`stop` for up to its grace) and may come from any thread.
"""

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

KEEPER = Path(__file__).with_name("keeper.py")
LOG_BYTES = 4 << 20
GRACE_S = 10.0


class ChildError(RuntimeError):
    """A child cannot be started; the message names it and the reason."""


class Child:
    """A command that runs until it ends, is stopped, or this process is gone.

    If this process dies, by SIGKILL too, the child gets SIGTERM and after `grace_s` SIGKILL, with
    all that it started. It has a session of its own: a Ctrl-C in the terminal does not reach it.
    Its standard output and error go to `log`, at most `log_bytes`; what was there before is kept
    once as `LOG.1`. Buffering is the command's own: give a Python program `PYTHONUNBUFFERED=1`.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        log_bytes: int = LOG_BYTES,
        grace_s: float = GRACE_S,
    ) -> None:
        self.name = name
        self.command = [str(part) for part in command]
        self.log = log.absolute()
        self.env, self.cwd = env, cwd
        self.log_bytes, self.grace_s = log_bytes, grace_s
        self.pid: int | None = None  # of the command itself; of the last one after its end
        self.exit_code: int | None = None  # None before its end; negative: the signal that ended it
        self.started_at_s: float | None = None  # Unix time
        self._keeper: subprocess.Popen[bytes] | None = None
        self._orders = threading.Lock()
        self._ended = threading.Event()
        self._ended.set()

    @property
    def running(self) -> bool:
        """Tell whether the command has started and not ended."""
        return not self._ended.is_set()

    def start(self) -> int:
        """Start the command and return its process id; after an end it may be started again.

        Raises `ChildError` if it runs already or cannot be started.
        """
        if self.running:
            raise ChildError(f"{self.name} runs already as process {self.pid}: stop it first")
        keeper = self._start_keeper()
        what, rest = self._told(keeper)
        if what != "pid":
            self._let_go(keeper)
            raise ChildError(f"{self.name} cannot be started: {rest or KEEPER.name + ' failed'}")
        self.pid, self.exit_code, self.started_at_s = int(rest), None, time.time()
        self._keeper = keeper
        self._ended.clear()
        name = f"child {self.name}"
        threading.Thread(target=self._follow, args=(keeper,), name=name, daemon=True).start()
        return self.pid

    def stop(self, grace_s: float | None = None) -> int | None:
        """Send SIGTERM, and SIGKILL after the grace; return the exit code.

        The exit code is None if the child was never started.
        """
        self._order(b"T")
        if not self._ended.wait(self.grace_s if grace_s is None else grace_s):
            return self.kill()
        return self.exit_code

    def kill(self) -> int | None:
        """Send SIGKILL to the command and all that it started; return the exit code."""
        self._order(b"K")
        self._ended.wait()
        return self.exit_code

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end; tell whether it came in time."""
        return self._ended.wait(timeout_s)

    def tail(self, lines: int = 20) -> str:
        """Return the last lines of the log, for an error's message."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def _start_keeper(self) -> "subprocess.Popen[bytes]":
        settings = [str(self.log), str(self.log_bytes), str(self.grace_s)]
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(KEEPER), *settings, *self.command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # ours must not stay open for a reader after our death
            bufsize=0,
            env=self.env,
            cwd=self.cwd,
            start_new_session=True,
        )

    def _told(self, keeper: "subprocess.Popen[bytes]") -> tuple[str, str]:
        assert keeper.stdout is not None
        what, _, rest = keeper.stdout.readline().decode().strip().partition(" ")
        return what, rest

    def _follow(self, keeper: "subprocess.Popen[bytes]") -> None:
        """Wait for the child's end and note it. A keeper that was killed took the child along."""
        _, code = self._told(keeper)
        self._let_go(keeper)
        self.exit_code = int(code) if code else keeper.returncode
        self._ended.set()

    def _let_go(self, keeper: "subprocess.Popen[bytes]") -> None:
        with self._orders:
            self._keeper = None
        with keeper:  # closes the pipes and waits
            pass

    def _order(self, order: bytes) -> None:
        """Give the keeper an order; one that comes after the end has nothing to do."""
        with self._orders, contextlib.suppress(BrokenPipeError):
            if self._keeper is not None and self._keeper.stdin is not None:
                self._keeper.stdin.write(order)
