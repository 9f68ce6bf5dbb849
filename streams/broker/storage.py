"""The broker's data folder: made once, used by one broker at a time."""

import base64
import fcntl
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from streams.broker.errors import BrokerError

WAIT_S = 15.0  # an earlier broker whose parent died ends within ten
LOOK_AGAIN_S = 0.1
FORMAT_S = 180.0


def is_formatted(topics: Path) -> bool:
    """Tell whether Kafka has made this folder its own; it writes this file last."""
    return (topics / "meta.properties").exists()


def format_topics(tool: Sequence[str], properties: Path) -> None:
    """Run Kafka's storage tool, with `tool` the command, on the folders that `properties` names.

    Raises `BrokerError` with the tool's last words.
    """
    arguments = ["format", "--ignore-formatted", "-t", new_cluster_id(), "-c", str(properties)]
    done = subprocess.run([*tool, *arguments], capture_output=True, text=True, timeout=FORMAT_S)
    if done.returncode != 0:
        words = "\n".join((done.stdout + done.stderr).splitlines()[-10:])
        raise BrokerError(f"Kafka cannot format its data folder:\n{words}")


def new_cluster_id() -> str:
    """Return a random id as Kafka writes them: 16 bytes in 22 letters of base64, no dash first."""
    text = base64.urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
    return "A" + text[1:]


@contextmanager
def starting(data: Path) -> Iterator[None]:
    """Let brokers that start in one folder do so one after the other.

    Kafka takes its own lock seconds after its start: until then nobody sees that it is there.
    """
    data.mkdir(parents=True, exist_ok=True)
    with (data / "starting.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def wait_until_unused(topics: Path, wait_s: float = WAIT_S) -> None:
    """Return as soon as no broker uses the folder; raises `BrokerError` if one still does."""
    until_s = time.monotonic() + wait_s
    while is_used(topics):
        if time.monotonic() > until_s:
            raise BrokerError(
                f"Another broker uses {topics.parent}: stop it, or name another data folder"
            )
        time.sleep(LOOK_AGAIN_S)


def is_used(topics: Path) -> bool:
    """Tell whether a broker holds Kafka's own lock on the folder."""
    try:
        with (topics / ".lock").open("r+b") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False
