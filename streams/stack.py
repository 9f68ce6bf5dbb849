"""The whole stack on one machine: broker, ClickHouse, control workers, history.

    with Stack(read_config(os.environ), os.environ, workers=2) as stack:
        while True:
            for line in stack.tend(time.monotonic()):
                print(line)
            time.sleep(TEND_S)

What ends by itself, or is killed, is started again: at once the first time, then with growing
patience. What is running stands in `stack.json` in the data folder, for `tokenweir` and for tests.
"""

import asyncio
import fcntl
import json
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import IO, Protocol, Self, TypeVar

from streams.config import CHECKOUT, Config
from streams.supervise import Child
from streams.topics import create_topics
from tokenweir.errors import BadInput

TEND_S = 0.1
LONGEST_PAUSE_S = 30.0
STEADY_S = 20.0  # a part that has lived this long begins with no pause again
CONTROL = ("control",)
HISTORY = ("history",)
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


@dataclass(slots=True)
class Stack:
    """The parts of one deployment, as child processes that end when this process does.

    `TOKENWEIR_BROKERS` and `TOKENWEIR_CLICKHOUSE` name parts that run elsewhere; without workers
    the control plane and the history run elsewhere too.
    """

    config: Config
    environ: Mapping[str, str]
    workers: int = 1
    parts: list[Part] = field(default_factory=list)
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _lock: IO[str] | None = None

    def start(self, say: Callable[[str], None] = lambda line: None) -> Config:
        """Start everything in order; the configuration with both addresses.

        Raises `BadInput` if a stack of this data folder runs already, and the parts' errors, after
        everything is stopped again.
        """
        self._take_lock()
        try:
            say("Starting Kafka and ClickHouse")
            self._start_stores()
            if self.workers:
                say("Starting the control plane and the history")
                asyncio.run(create_topics(self.config, self.config.brokers or ""))
                self._start_workers()
        except BaseException:
            self.stop()
            raise
        return self.config

    def tend(self, now_s: float) -> list[str]:
        """Start again what has ended; a line for each thing that was done."""
        with self._turn:
            lines = [line for part in self.parts if (line := _tend(part, now_s))]
            if lines:
                self._write()
        return lines

    def stop(self) -> None:
        """Stop everything, what depends on others first; safe to call twice."""
        with self._turn:
            stores = ("broker", "clickhouse")
            _at_once(_stop, [part for part in self.parts if part.name not in stores])
            _at_once(_stop, [part for part in self.parts if part.name in stores])
            self.parts.clear()
            self._release_lock()

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

    @property
    def _file(self) -> Path:
        return self.config.data / "stack.json"

    def _start_stores(self) -> None:
        """Start what does not run elsewhere, both at the same time."""
        data = self.config.data
        if self.config.brokers is None:
            self.parts.append(_broker(data / "kafka"))
        if self.config.clickhouse is None:
            self.parts.append(_clickhouse(data / "clickhouse"))
        started = _at_once(_start, self.parts)
        addresses = dict(zip((part.name for part in self.parts), started, strict=True))
        self.config = replace(
            self.config,
            brokers=addresses.get("broker", self.config.brokers),
            clickhouse=addresses.get("clickhouse", self.config.clickhouse),
        )
        self._write()

    def _start_workers(self) -> None:
        names = [(f"control-{worker}", CONTROL, str(worker)) for worker in range(self.workers)]
        names.append(("history", HISTORY, "0"))
        started = [self._child(name, command, worker) for name, command, worker in names]
        self.parts += started
        _at_once(_start, started)
        self._write()

    def _child(self, name: str, command: Sequence[str], worker: str) -> Part:
        log = self.config.data / "log" / f"{name}.log"
        child = Child(
            name,
            [sys.executable, "-m", "streams", *command],
            log=log,
            env=environment(self.environ, self.config, worker),
            cwd=CHECKOUT,
        )
        return Part(name, child, log)

    def _take_lock(self) -> None:
        self.config.data.mkdir(parents=True, exist_ok=True)
        lock = (self.config.data / "stack.lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise BadInput(_taken(self._file)) from None
        self._lock = lock

    def _release_lock(self) -> None:
        if self._lock is not None:
            self._file.unlink(missing_ok=True)
            self._lock.close()
            self._lock = None

    def _write(self) -> None:
        processes = [
            {
                "name": part.name,
                "pid": part.process.pid,
                "state": part.state(),
                "log": str(part.log),
            }
            for part in self.parts
        ]
        text = json.dumps(
            {
                "pid": os.getpid(),
                "brokers": self.config.brokers,
                "clickhouse": self.config.clickhouse,
                "processes": processes,
            },
            indent=1,
        )
        whole = self._file.with_suffix(".new")
        whole.write_text(text)
        whole.replace(self._file)


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


def _broker(data: Path) -> Part:
    from streams.broker import Broker  # here: where it runs elsewhere, no Java is needed

    return Part("broker", Broker(data), data / "broker.log")


def _clickhouse(data: Path) -> Part:
    from streams.clickhouse import LocalClickHouse  # here: nor is chDB

    return Part("clickhouse", LocalClickHouse(data), data / "server.log")


def _tend(part: Part, now_s: float) -> str | None:
    if part.process.running:
        if now_s - part.started_s > STEADY_S:
            part.pause_s = 0.0
        return None
    if part.noticed_s is None:
        part.noticed_s = now_s
    if now_s - part.noticed_s < part.pause_s:
        return None
    return _restart(part, now_s)


def _restart(part: Part, now_s: float) -> str:
    part.pause_s = min(max(1.0, 2 * part.pause_s), LONGEST_PAUSE_S)
    part.started_s, part.noticed_s = now_s, None
    try:
        part.process.start()
    except RuntimeError as error:
        part.noticed_s = now_s
        return f"{part.name} cannot be started again, next try in {part.pause_s:.0f} s: {error}"
    return f"{part.name} had ended and runs again as process {part.process.pid}"


def _start(part: Part) -> str:
    """What the part says of itself: a store says its address."""
    return str(part.process.start())


def _stop(part: Part) -> None:
    part.process.stop()


def _at_once(do: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
    """Do it for all parts at the same time; the first error, after all are through."""
    with ThreadPoolExecutor(max_workers=max(len(parts), 1)) as pool:
        done = [pool.submit(do, part) for part in parts]
    return [each.result() for each in done]


def _taken(file: Path) -> str:
    """What to do where a stack of this data folder runs already."""
    use = "set TOKENWEIR_DATA to another folder for a second one"
    with suppress(OSError, ValueError, KeyError):
        stack = json.loads(file.read_text())
        use = (
            f"to use it: TOKENWEIR_BROKERS={stack['brokers']}"
            f" TOKENWEIR_CLICKHOUSE={stack['clickhouse']} python -m streams demo --workers 0;"
            f" or {use}"
        )
    return f"a stack runs already in {file.parent}: {use}"
