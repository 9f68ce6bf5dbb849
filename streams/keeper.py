"""The process between us and a child: it ends the child when we are gone, and bounds its log.

`streams.supervise` runs this file by its path, with the standard library only:

    keeper.py LOG LOG_BYTES GRACE_S COMMAND...

Standard input is our hold on it. `T` asks the child to end (SIGTERM), `K` kills it and all that it
started (SIGKILL), and the end of input means that we died, however that happened: then the child is
asked, and after GRACE_S killed. A pipe's end works on every Unix, for a parent killed with SIGKILL
too. Standard output tells `pid N`, then `exit N` (negative: the signal), or `failed REASON`.
"""

import contextlib
import ctypes
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from math import inf
from pathlib import Path

ORDERS = 0  # standard input
PIECE_BYTES = 65536
PR_SET_PDEATHSIG = 1  # linux/prctl.h


class BoundedLog:
    """A file of at most `limit` bytes; what was before it is kept once, as `FILE.1`."""

    def __init__(self, path: Path, limit: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path, self.limit = path, limit
        self._open()

    def write(self, piece: bytes) -> None:
        """Append; a full disk costs the log, not the child."""
        with contextlib.suppress(OSError):
            if self.file.tell() + len(piece) > self.limit:
                self.file.close()
                self._open()
            self.file.write(piece)

    def _open(self) -> None:
        if self.path.exists():
            self.path.replace(self.path.with_name(self.path.name + ".1"))
        self.file = self.path.open("ab", buffering=0)


class Keeper:
    """One child, from its start to its end."""

    def __init__(self, command: list[str], log: BoundedLog, grace_s: float) -> None:
        self.log, self.grace_s = log, grace_s
        self.kill_at_s = inf
        self.child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a Ctrl-C in the terminal is ours to pass on
            preexec_fn=_die_with_the_keeper(),
        )
        assert self.child.stdout is not None
        self.output = self.child.stdout.fileno()
        os.set_blocking(self.output, False)

    def run(self) -> int:
        """Pass on orders and output until the child has ended; return its exit code."""
        events = selectors.DefaultSelector()
        events.register(ORDERS, selectors.EVENT_READ, self._order)
        events.register(self.output, selectors.EVENT_READ, self._copy)
        events.register(_signals(), selectors.EVENT_READ, self._signalled)
        while self.child.poll() is None:
            for key, _ in events.select(self._patience_s()):
                if not key.data(key.fd):
                    events.unregister(key.fd)
            if time.monotonic() >= self.kill_at_s:
                self.kill()
        self.kill()  # what the child started and left behind
        while self._copy(self.output):
            pass
        return self.child.returncode

    def end(self) -> None:
        """Ask the child to end, and kill it after the grace."""
        self.child.send_signal(signal.SIGTERM)
        self.kill_at_s = min(self.kill_at_s, time.monotonic() + self.grace_s)

    def kill(self) -> None:
        """Kill the child and all of its session that is left."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.child.pid, signal.SIGKILL)

    def _order(self, orders: int) -> bool:
        order = os.read(orders, 16)
        if b"K" in order:
            self.kill()
        elif b"T" in order:
            self.child.send_signal(signal.SIGTERM)
        else:
            self.end()
        return bool(order)

    def _copy(self, output: int) -> bool:
        try:
            piece = os.read(output, PIECE_BYTES)
        except BlockingIOError:  # only when all is read and a stray grandchild holds the pipe
            return False
        self.log.write(piece)
        return bool(piece)

    def _signalled(self, wake: int) -> bool:
        if set(os.read(wake, 16)) - {signal.SIGCHLD}:
            self.end()
        return True

    def _patience_s(self) -> float | None:
        return None if self.kill_at_s == inf else max(self.kill_at_s - time.monotonic(), 0.01)


def _die_with_the_keeper() -> Callable[[], None] | None:
    """Return what ties a child to this process where the system can: on Linux."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _signals() -> int:
    """Return a pipe that tells a child's end, and somebody's wish to end us, as signal numbers."""
    wake, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    return wake


def _tell(line: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        print(line, flush=True)


def main() -> None:
    """Start the child, follow it to its end, and tell both."""
    log, log_bytes, grace_s, *command = sys.argv[1:]
    try:
        keeper = Keeper(command, BoundedLog(Path(log), int(log_bytes)), float(grace_s))
    except OSError as error:
        _tell(f"failed {error}")
        return
    _tell(f"pid {keeper.child.pid}")
    _tell(f"exit {keeper.run()}")


if __name__ == "__main__":
    main()
