"""The parts of a stack: processes that are started, and started again when they end."""

import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from streams.config import CHECKOUT, Config
from streams.supervise import Child

LONGEST_PAUSE_S = 30.0
STEADY_S = 20.0  # a part that has lived this long begins with no pause again
Result = TypeVar("Result")


class Runnable(Protocol):
    """What the stack can start and stop; calls block and may come from any thread."""

    @property
    def pid(self) -> int | None:
        """The process id, of the last process after its end."""

    @property
    def running(self) -> bool:
        """Whether the process lives."""

    def start(self) -> object:
        """Start it; an error is a RuntimeError that says what to do."""

    def stop(self) -> object:
        """End it."""


@dataclass(slots=True)
class Part:
    """One process of the stack and when it may be started again."""

    name: str
    process: Runnable
    log: Path
    pause_s: float = 0.0
    started_s: float = 0.0
    noticed_s: float | None = None  # when its end was noticed

    def state(self) -> str:
        """As `stack.json` says it."""
        return "running" if self.process.running else "restarting"


def broker_part(data: Path) -> Part:
    """Our Kafka, with its data in this folder."""
    from streams.broker import Broker  # here: where it runs elsewhere, no Java is needed

    return Part("broker", Broker(data), data / "broker.log")


def clickhouse_part(data: Path) -> Part:
    """Our ClickHouse, with its data in this folder."""
    from streams.clickhouse import LocalClickHouse  # here: nor is chDB

    return Part("clickhouse", LocalClickHouse(data), data / "server.log")


def worker_part(
    name: str, command: str, environ: Mapping[str, str], config: Config, worker: str = "0"
) -> Part:
    """`python -m streams COMMAND` under this configuration."""
    log = config.data / "log" / f"{name}.log"
    child = Child(
        name,
        [sys.executable, "-m", "streams", command],
        log=log,
        env=environment(environ, config, worker),
        cwd=CHECKOUT,
    )
    return Part(name, child, log)


def environment(environ: Mapping[str, str], config: Config, worker: str) -> dict[str, str]:
    """The environment of a child that shall read this configuration."""
    ours = {
        "TOKENWEIR_BROKERS": config.brokers,
        "TOKENWEIR_CLICKHOUSE": config.clickhouse,
        "TOKENWEIR_DATA": str(config.data.absolute()),
        "TOKENWEIR_TOPIC_PREFIX": config.topic_prefix,
        "TOKENWEIR_APPLICATION": config.application,
        "TOKENWEIR_PARTITIONS": str(config.partitions),
        "TOKENWEIR_REPLICATION": str(config.replication),
        "TOKENWEIR_WORKER": worker,
        "PYTHONUNBUFFERED": "1",
    }
    return {**environ, **{name: value for name, value in ours.items() if value is not None}}


def due(part: Part, now_s: float) -> bool:
    """Whether the part has ended and its pause is over."""
    if part.process.running:
        if now_s - part.started_s > STEADY_S:
            part.pause_s = 0.0
        return False
    if part.noticed_s is None:
        part.noticed_s = now_s
    return now_s - part.noticed_s >= part.pause_s


def restart(part: Part, now_s: float) -> str:
    """Start the part again, or be more patient with it; a line that says what was done."""
    part.pause_s = min(max(1.0, 2 * part.pause_s), LONGEST_PAUSE_S)
    part.started_s, part.noticed_s = now_s, None
    try:
        part.process.start()
    except RuntimeError as error:
        part.noticed_s = now_s
        return f"{part.name} cannot be started again, next try in {part.pause_s:.0f} s: {error}"
    return f"{part.name} had ended and runs again as process {part.process.pid}"


def start(part: Part) -> str:
    """What the part says of itself: a store says its address."""
    return str(part.process.start())


def stop(part: Part) -> None:
    """End the part."""
    part.process.stop()


def at_once(do: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
    """Do it for all parts at the same time; the first error, after all are through."""
    with ThreadPoolExecutor(max_workers=max(len(parts), 1)) as pool:
        done = [pool.submit(do, part) for part in parts]
    return [each.result() for each in done]
