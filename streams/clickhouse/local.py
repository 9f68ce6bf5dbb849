"""The server as a child process, for whoever needs one started."""

import re
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from streams.supervise import Child

_CHECKOUT: Final = Path(__file__).parents[2]
_READY: Final = re.compile(r"is ready on (http://127\.0\.0\.1:(\d+))")
_POLL_S: Final = 0.02


class ClickHouseError(RuntimeError):
    """The server did not start; the message holds what it said."""


class LocalClickHouse:
    """A ClickHouse on 127.0.0.1 that keeps `data`; it ends when this process does.

    Without a `port` the first start takes a free one; later starts keep it, and so the URL.
    """

    def __init__(self, data: Path, port: int | None = None) -> None:
        self.data = data.absolute()
        self.url = "" if port is None else f"http://127.0.0.1:{port}"
        self._port = port
        self._child: Child | None = None

    @property
    def pid(self) -> int | None:
        """The server's process id, None if it does not run."""
        return self._child.pid if self._child and self._child.running else None

    @property
    def running(self) -> bool:
        """Whether the server's process lives."""
        return self._child is not None and self._child.running

    def start(self, deadline_s: float = 120) -> str:
        """Start the server, wait until it is ready, and return its URL.

        Raises `ClickHouseError` if it ends or is not ready in time.
        """
        self.data.mkdir(parents=True, exist_ok=True)
        where = ["--data", str(self.data), "--port", str(self._port or 0)]
        child = Child(
            "clickhouse",
            [sys.executable, "-m", "streams.clickhouse", *where],
            log=self.data / "server.log",
            cwd=_CHECKOUT,
        )
        child.start()
        self._child = child
        self.url, self._port = self._ready(child, time.monotonic() + deadline_s)
        return self.url

    def _ready(self, child: Child, deadline: float) -> tuple[str, int]:
        while time.monotonic() < deadline:
            if found := _READY.search(child.tail()):
                return found[1], int(found[2])
            if child.wait(_POLL_S):
                raise ClickHouseError(f"ClickHouse ended at its start:\n{child.tail()}")
        child.kill()
        raise ClickHouseError(f"ClickHouse was not ready in time:\n{child.tail()}")

    def stop(self) -> None:
        """End the server cleanly; INSERTs that run have a few seconds."""
        if self._child:
            self._child.stop()

    def kill(self) -> None:
        """Send SIGKILL: what it has acknowledged is there at the next start."""
        if self._child:
            self._child.kill()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
