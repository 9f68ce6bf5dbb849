"""A user who comes over HTTP: the example gateway as a process, and a request a second to it.

The example's model answers in its own time and says itself how many tokens that took. Where the
load is a trace nobody else asks, so that the totals are the trace's.
"""

import asyncio
import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from aiohttp import ClientConnectionError, ClientError, ClientSession, ClientTimeout

from streams.broker.ports import free_port
from streams.config import CHECKOUT, Config
from streams.demo.tally import Tallies, Tally
from streams.supervise import Child
from tokenweir.errors import Unavailable

TENANT, USER = "copilot", "visitor"
QUESTION = {
    "model": "m-large",
    "messages": [{"role": "user", "content": "Who goes first when water is short?"}],
    "max_tokens": 20,
}
EVERY_S = 1.0
UP_S = 60.0
ANSWER_S = 60.0
LOOK_S = 0.1


@dataclass(slots=True)
class Visitor:
    """Asks from `begin` on while it is entered; afterwards the gateway has reported all of it.

    Raises `Unavailable`, with the end of its log, where the example does not run.
    """

    config: Config
    pool: str
    logs: Path
    _tally: Tally = field(default_factory=Tally)
    _example: Child = field(init=False)
    _base: str = field(init=False)
    _visits: "asyncio.Task[None] | None" = None
    _closed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def tallies(self) -> Tallies:
        """What it counted; nothing if it never asked."""
        return {TENANT: self._tally} if self._tally != Tally() else {}

    async def __aenter__(self) -> Self:
        port = free_port()
        self._base = f"http://127.0.0.1:{port}"
        options = {
            "--brokers": self.config.brokers,
            "--prefix": self.config.topic_prefix,
            "--pool": self.pool,
            "--port": port,
        }
        command = [f"{name}={value}" for name, value in options.items()]
        self._example = Child(
            "example",
            [sys.executable, "-m", "examples.openai_gateway", *command],
            log=self.logs / "example.log",
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            cwd=CHECKOUT,
        )
        self._example.start()
        try:
            await self._up()
        except BaseException:
            self._example.kill()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closed.set()
        try:
            if self._visits is not None and error is None:
                await self._visits
        finally:
            await asyncio.to_thread(self._example.stop, ANSWER_S)

    def begin(self) -> None:
        """Ask from now on."""
        self._visits = asyncio.create_task(self._visit())

    async def _visit(self) -> None:
        async with ClientSession(timeout=ClientTimeout(ANSWER_S)) as session:
            while not self._closed.is_set():
                try:
                    await self._ask(session)
                except ClientError as error:
                    what = f"the example gateway did not answer ({error!r}):"
                    raise Unavailable(f"{what}\n{self._example.tail()}") from error
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._closed.wait(), EVERY_S)

    async def _up(self) -> None:
        deadline_s = time.monotonic() + UP_S
        async with ClientSession(timeout=ClientTimeout(ANSWER_S)) as session:
            while True:
                with suppress(ClientConnectionError):
                    async with session.get(self._base):
                        return
                if not self._example.running or time.monotonic() > deadline_s:
                    raise Unavailable(f"the example gateway does not run:\n{self._example.tail()}")
                await asyncio.sleep(LOOK_S)

    async def _ask(self, session: ClientSession) -> None:
        key = {"Authorization": f"Bearer {TENANT}:{USER}"}
        url = f"{self._base}/v1/chat/completions"
        async with session.post(url, json=QUESTION, headers=key) as response:
            answer = await response.json()
        if response.ok:
            usage = answer["usage"]
            self._tally.spend(usage["prompt_tokens"], 0, usage["completion_tokens"])
        else:
            self._tally.refuse(answer["error"]["reason"])
