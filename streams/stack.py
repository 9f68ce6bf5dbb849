"""The whole stack on one machine: broker, ClickHouse, control workers, quotas, history.

    with Stack(read_config(os.environ), os.environ, workers=2) as stack:
        while True:
            for line in stack.tend(time.monotonic()):
                print(line)
            time.sleep(TEND_S)

What ends by itself, or is killed, is started again: at once the first time, then with growing
patience. What is running stands in `stack.json` in the data folder, for `tokenweir` and for tests.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import IO, Self

from streams.config import Config
from streams.parts import (
    Part,
    at_once,
    broker_part,
    clickhouse_part,
    due,
    restart,
    start,
    stop,
    worker_part,
)
from streams.stack_state import lock_folder, state_file, write_state
from streams.topics import create_topics
from tokenweir.errors import BadInput

TEND_S = 0.1
STORES = ("broker", "clickhouse")


@dataclass(slots=True)
class Stack:
    """The parts of one deployment, as child processes that end when this process does.

    `TOKENWEIR_BROKERS` and `TOKENWEIR_CLICKHOUSE` name parts that run elsewhere; without workers
    the control plane and the history run elsewhere too.
    """

    config: Config
    environ: Mapping[str, str]
    workers: int = 1
    events: bool = False  # gather single events of other gateways too
    parts: list[Part] = field(default_factory=list)
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _locked: IO[str] | None = None

    @property
    def empty(self) -> bool:
        """Whether everything runs elsewhere."""
        return not self.workers and None not in (self.config.brokers, self.config.clickhouse)

    def start(self, say: Callable[[str], None] = lambda line: None) -> Config:
        """Start everything in order; the configuration with both addresses.

        Raises `BadInput` if a stack of this data folder runs already, and the parts' errors, after
        everything is stopped again.
        """
        if self.empty:
            return self.config
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
            ended = [part for part in self.parts if due(part, now_s)]
            if not ended:
                return []
            write_state(self.config, self.parts)  # a store takes seconds to come back
            lines = [restart(part, now_s) for part in ended]
            write_state(self.config, self.parts)
        return lines

    def stop(self) -> None:
        """Stop everything, what depends on others first; safe to call twice."""
        with self._turn:
            at_once(stop, [part for part in self.parts if part.name not in STORES])
            at_once(stop, [part for part in self.parts if part.name in STORES])
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

    def _start_stores(self) -> None:
        """Start what does not run elsewhere, both at the same time."""
        data = self.config.data
        if self.config.brokers is None:
            self.parts.append(broker_part(data / "kafka"))
        if self.config.clickhouse is None:
            self.parts.append(clickhouse_part(data / "clickhouse"))
        started = at_once(start, self.parts)
        addresses = dict(zip((part.name for part in self.parts), started, strict=True))
        self.config = replace(
            self.config,
            brokers=addresses.get("broker", self.config.brokers),
            clickhouse=addresses.get("clickhouse", self.config.clickhouse),
        )
        write_state(self.config, self.parts)

    def _start_workers(self) -> None:
        workers = [
            worker_part(f"control-{worker}", "control", self.environ, self.config, str(worker))
            for worker in range(self.workers)
        ]
        workers += [
            worker_part(name, name, self.environ, self.config) for name in ("history", "quotas")
        ]
        if self.events:
            workers.append(worker_part("events", "events", self.environ, self.config))
        self.parts += workers
        at_once(start, workers)
        write_state(self.config, self.parts)

    def _take_lock(self) -> None:
        self._locked = lock_folder(self.config.data)
        if self._locked is None:
            raise BadInput(
                f"a stack runs already in {self.config.data}: `python -m streams demo` uses it;"
                " set TOKENWEIR_DATA to another folder for a second one"
            )

    def _release_lock(self) -> None:
        if self._locked is not None:
            state_file(self.config).unlink(missing_ok=True)
            self._locked.close()
            self._locked = None
