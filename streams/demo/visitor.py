"""A user who comes over HTTP: the example gateway as a process, and a request a second to it.

The example's model answers in its own time and says itself how many tokens that took. Where the
load is a trace nobody else asks, so that the totals are the trace's.
"""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

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
    """Asks the example at `base`, from `begin` on until `end`.

    Raises `Unavailable`, with the end of its log, where the example does not answer.
    """

    base: str
    example: Child
    tally: Tally = field(default_factory=Tally)
    _visits: "asyncio.Task[None] | None" = None
    _closed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def tallies(self) -> Tallies:
        """What it counted; nothing if it never asked."""
        return {TENANT: self.tally} if self.tally != Tally() else {}

    async def up(self) -> None:
        """Wait until the example answers."""
        deadline_s = time.monotonic() + UP_S
        async with ClientSession(timeout=ClientTimeout(ANSWER_S)) as session:
            while True:
                with suppress(ClientConnectionError):
                    async with session.get(self.base):
                        return
                if not self.example.running or time.monotonic() > deadline_s:
                    raise self._unavailable("does not run")
                await asyncio.sleep(LOOK_S)

    def begin(self) -> None:
        """Ask from now on."""
        self._visits = asyncio.create_task(self._visit())

    async def end(self) -> None:
        """Ask no more; the last answer is awaited."""
        self._closed.set()
        if self._visits is not None:
            await self._visits

    async def _visit(self) -> None:
        async with ClientSession(timeout=ClientTimeout(ANSWER_S)) as session:
            while not self._closed.is_set():
                try:
                    await self._ask(session)
                except ClientError as error:
                    raise self._unavailable(f"did not answer ({error!r})") from error
                with suppress(TimeoutError):
                    async with asyncio.timeout(EVERY_S):
                        await self._closed.wait()

    async def _ask(self, session: ClientSession) -> None:
        key = {"Authorization": f"Bearer {TENANT}:{USER}"}
        url = f"{self.base}/v1/chat/completions"
        async with session.post(url, json=QUESTION, headers=key) as response:
            answer = await response.json()
        if response.ok:
            usage = answer["usage"]
            self.tally.spend(usage["prompt_tokens"], 0, usage["completion_tokens"])
        else:
            self.tally.refuse(answer["error"]["reason"])

    def _unavailable(self, what: str) -> Unavailable:
        return Unavailable(f"the example gateway {what}:\n{self.example.tail()}")


@asynccontextmanager
async def visiting(config: Config, pool: str, logs: Path) -> AsyncIterator[Visitor]:
    """A visitor of an example that is up; afterwards its gateway has reported all of it."""
    port = free_port()
    options = {
        "--brokers": config.brokers,
        "--prefix": config.topic_prefix,
        "--pool": pool,
        "--port": port,
    }
    command = [f"{name}={value}" for name, value in options.items()]
    example = Child(
        "example",
        [sys.executable, "-m", "examples.openai_gateway", *command],
        log=logs / "example.log",
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        cwd=CHECKOUT,
    )
    example.start()
    try:
        visitor = Visitor(f"http://127.0.0.1:{port}", example)
        await visitor.up()
        yield visitor
        await visitor.end()
    finally:
        await asyncio.to_thread(example.stop, ANSWER_S)
