"""Whether the processes of the stack that runs here still live."""

import os
from pathlib import Path
from typing import Any

from tokenweir.cli.pools import Row


def rows_of(stack: dict[str, Any]) -> list[Row]:
    """Each process with its state: what the stack says, or `dead` when its pid does not live."""
    return [
        {
            "name": process.get("name", "?"),
            "pid": process.get("pid"),
            "state": _state(process),
            "log": process.get("log"),
        }
        for process in stack.get("processes", [])
    ]


def _state(process: dict[str, Any]) -> str:
    said = str(process.get("state", "unknown"))
    if said != "running":
        return said
    return "running" if lives(process.get("pid")) else "dead"


def lives(pid: int | None) -> bool:
    """Whether a process with this id runs; one that has ended and waits to be read does not."""
    if not pid:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
