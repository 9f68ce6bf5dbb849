"""The demo's gateways as child processes, from here."""

import asyncio
import json
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from streams.config import CHECKOUT
from streams.demo.tally import Tallies, Tally, together
from tokenweir.errors import Unavailable

READY_S = 90.0
SOON_S = 0.5  # from the word to the start, so that all gateways have heard it
END_S = 60.0  # for requests in flight and the last report, after the load is closed


@dataclass(slots=True)
class Counted:
    """What the gateways counted together."""

    gateways: list[str]
    tallies: Tallies
    latest_s: float  # the most that a request was offered behind its time


class Load:
    """The gateway processes: started, told when to begin, and asked what they counted.

    Their standard input is our hold on them: they end when this process is gone.
    """

    def __init__(self, commands: Mapping[str, Sequence[str]], logs: Path) -> None:
        self.commands = commands
        self.logs = logs
        self.processes: dict[str, Process] = {}

    async def __aenter__(self) -> Self:
        self.logs.mkdir(parents=True, exist_ok=True)
        for name, command in self.commands.items():
            self.processes[name] = await self._start(name, command)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self.processes.values():
            if process.returncode is None:
                process.kill()
            await process.wait()

    async def begin(self) -> float:
        """Wait until all gateways obey a decision; the start of the load on the monotonic clock.

        Raises `Unavailable`, with the end of its log, for a gateway that has ended or is not ready.
        """
        await asyncio.gather(*(self._line(name, READY_S) for name in self.processes))
        start_s = time.monotonic() + SOON_S
        for process in self.processes.values():
            _input(process).write(f"{start_s}\n".encode())
        return start_s

    async def counted(self) -> Counted:
        """Wait until all gateways are done; what they counted."""
        lines = await asyncio.gather(*(self._line(name, None) for name in self.processes))
        for process in self.processes.values():
            await process.wait()
        return _counted(lines)

    def close(self) -> None:
        """Tell the gateways to offer nothing more."""
        for process in self.processes.values():
            _input(process).close()

    async def _start(self, name: str, command: Sequence[str]) -> Process:
        with (self.logs / f"{name}.log").open("wb") as log:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "streams.demo.gateway",
                *command,
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
                cwd=CHECKOUT,
                start_new_session=True,  # a Ctrl-C in the terminal is ours to pass on
            )

    async def _line(self, name: str, timeout_s: float | None) -> dict[str, Any]:
        output = self.processes[name].stdout
        assert output is not None
        try:
            async with asyncio.timeout(timeout_s):
                text = await output.readline()
        except TimeoutError:
            raise Unavailable(
                self._last_words(name, f"is not ready in {timeout_s:.0f} s")
            ) from None
        if not text:
            raise Unavailable(self._last_words(name, "has ended too early"))
        line: dict[str, Any] = json.loads(text)
        return line

    def _last_words(self, name: str, what: str) -> str:
        log = self.logs / f"{name}.log"
        lines = log.read_text(errors="replace").splitlines()[-15:]
        return "\n".join([f"gateway {name} {what}; the end of {log}:", *lines])


def _counted(lines: Sequence[Mapping[str, Any]]) -> Counted:
    tallies = [
        {tenant: Tally.from_json(tally) for tenant, tally in line["tenants"].items()}
        for line in lines
    ]
    latest_s = max(float(line["latest_s"]) for line in lines)
    return Counted([line["gateway"] for line in lines], together(tallies), latest_s)


def _input(process: Process) -> asyncio.StreamWriter:
    assert process.stdin is not None
    return process.stdin
