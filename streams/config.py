"""The configuration: one frozen value, read once from the environment, checked whole.

Nothing else in `streams` and `agents` reads the environment.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tokenweir.errors import BadInput

CHECKOUT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Config:
    """Where the parts are, and the few numbers that a deployment sets."""

    brokers: str | None = None  # host:port,…; None: a broker of our own
    clickhouse: str | None = None  # http://…; None: a ClickHouse of our own
    data: Path = CHECKOUT / ".local"  # what our own parts keep, logs and state included
    topic_prefix: str = ""  # put before every topic's name: tests give each run its own
    application: str = "tokenweir"  # the consumer groups' common beginning
    partitions: int = 8  # of the usage topic, and so of the tables
    replication: int = 1
    worker: str = "0"  # names a control worker on this machine: its state folder, its membership


def read_config(environ: Mapping[str, str]) -> Config:
    """The configuration that `TOKENWEIR_…` variables ask for.

    Raises `BadInput` that names every variable that is wrong, its value and what is allowed.
    """
    problems: list[str] = []

    def number(name: str, least: int, default: int) -> int:
        text = environ.get(name)
        if text is None:
            return default
        if not text.isdecimal() or int(text) < least:
            problems.append(f"{name}={text!r}: a whole number of at least {least} is allowed")
            return default
        return int(text)

    clickhouse = environ.get("TOKENWEIR_CLICKHOUSE")
    if clickhouse is not None and not clickhouse.startswith(("http://", "https://")):
        problems.append(f"TOKENWEIR_CLICKHOUSE={clickhouse!r}: http://host:port is allowed")
    brokers = environ.get("TOKENWEIR_BROKERS")
    if brokers is not None and not all(_is_address(part) for part in brokers.split(",")):
        problems.append(f"TOKENWEIR_BROKERS={brokers!r}: host:port, or several with commas")
    default = Config()
    config = Config(
        brokers=brokers,
        clickhouse=clickhouse,
        data=Path(environ.get("TOKENWEIR_DATA", default.data)),
        topic_prefix=environ.get("TOKENWEIR_TOPIC_PREFIX", ""),
        application=environ.get("TOKENWEIR_APPLICATION", default.application),
        partitions=number("TOKENWEIR_PARTITIONS", 1, default.partitions),
        replication=number("TOKENWEIR_REPLICATION", 1, default.replication),
        worker=environ.get("TOKENWEIR_WORKER", default.worker),
    )
    if problems:
        raise BadInput("\n".join(problems))
    return config


def _is_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and port.isdecimal() and 0 < int(port) < 65536
