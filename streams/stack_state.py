"""What is known of a stack outside of its process: a lock and a file in its data folder."""

import fcntl
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

from streams.config import Config
from streams.parts import Part
from tokenweir.errors import BadInput


def find_running(config: Config) -> Config | None:
    """The configuration with the addresses of the stack that runs in this data folder, if one does.

    Raises `BadInput` while it is just starting.
    """
    if (lock := lock_folder(config.data)) is not None:
        lock.close()
        return None
    try:
        state = json.loads(state_file(config).read_text())
    except FileNotFoundError:
        raise BadInput(
            f"a stack in {config.data} is just starting: try again in a moment"
        ) from None
    return replace(config, brokers=state["brokers"], clickhouse=state["clickhouse"])


def lock_folder(data: Path) -> IO[str] | None:
    """The lock of a data folder, held until it is closed; None if another process holds it."""
    data.mkdir(parents=True, exist_ok=True)
    file = (data / "stack.lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def state_file(config: Config) -> Path:
    """Where a running stack says what it is: addresses and processes."""
    return config.data / "stack.json"


def write_state(config: Config, parts: Sequence[Part]) -> None:
    """Write the file as a whole: a reader never sees half of it."""
    processes = [
        {
            "name": part.name,
            "pid": part.process.pid,
            "state": part.state(),
            "log": str(part.log),
        }
        for part in parts
    ]
    state = {
        "pid": os.getpid(),
        "brokers": config.brokers,
        "clickhouse": config.clickhouse,
        "processes": processes,
    }
    whole = state_file(config).with_suffix(".new")
    whole.write_text(json.dumps(state, indent=1))
    whole.replace(state_file(config))
