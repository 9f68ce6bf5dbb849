"""A real HTTP server, a process of its own, that serves the files of a folder."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Its address, `http://127.0.0.1:PORT`."""
    command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"]
    with subprocess.Popen(
        [*command, "--directory", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdout is not None
        try:
            port = server.stdout.readline().split(" port ")[1].split()[0]
            yield f"http://127.0.0.1:{port}"
        finally:
            server.kill()
