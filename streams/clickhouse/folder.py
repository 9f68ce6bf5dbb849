"""The folder that keeps the tables: its lock, its users file, its database `default`."""

import fcntl
import os
from pathlib import Path

from streams.clickhouse.access import Limits, users_file


class DataFolderError(RuntimeError):
    """The data folder cannot be used; the message says why and what to do."""


def locked(data: Path) -> int:
    """Take the folder's lock, which ends with the process; raises `DataFolderError`."""
    if set("?&#%") & set(str(data)):
        raise DataFolderError(
            f"The data folder {data} has one of ? & # % in its name: choose another."
        )
    try:
        data.mkdir(parents=True, exist_ok=True)
        lock = os.open(data / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise DataFolderError(f"The data folder {data} cannot be written: {error}.") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(lock, 20, 0).decode() or "another one"
        os.close(lock)
        raise DataFolderError(
            f"The data folder {data} is in use by process {holder}: stop it or give another."
        ) from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
    return lock


def address(data: Path, limits: Limits) -> str:
    """Write the users file and return what the engine is opened with."""
    users = data / "users.xml"
    users.write_text(users_file(limits))
    options = {
        "config-file": users,  # the engine looks for a users file only when this is given
        "users_config": users,
        "access_control_improvements.table_engines_require_grant": "true",
        "access_control_improvements.enable_read_write_grants": "true",
        "max_server_memory_usage": limits.total_memory_bytes,
    }
    return f"{data}?" + "&".join(f"{name}={value}" for name, value in options.items())


def own_default(data: Path) -> list[bytes]:
    """Return what makes `default` a database like any other, once the engine is up.

    The engine puts one in its place that also reads files by their path; DETACH leaves all tables.
    """
    detach = b"DETACH DATABASE default"
    if (data / "metadata" / "default").exists():
        return [detach, b"ATTACH DATABASE default"]
    # Without a folder there has been no table yet, and the engine does not know the old one.
    (data / "metadata" / "default.sql").unlink(missing_ok=True)
    return [detach, b"CREATE DATABASE default ENGINE = Atomic"]
