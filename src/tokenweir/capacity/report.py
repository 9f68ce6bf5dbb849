"""The reporter: scrape the engines of a pool, add them up, send what has changed."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from aiohttp import ClientError, ClientSession, ClientTimeout

from tokenweir.capacity.engine import Engine, heard, missed
from tokenweir.capacity.estimate import Each, Sent, estimate, is_due
from tokenweir.capacity.sample import Sample, read_sample
from tokenweir.errors import BadInput
from tokenweir.records.spec import TokenWeights
from tokenweir.records.usage import CapacityReport

PATIENCE_S = 5.0  # for one scrape
LARGEST = 32 << 20  # bytes of a page

Send = Callable[[CapacityReport], Awaitable[bool]]  # whether the broker has it
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Watched:
    """Whose capacity is reported, and what is known of it beforehand."""

    pool: str
    source: str
    urls: Sequence[str]
    each: Each
    weights: TokenWeights
    every_s: float


@dataclass(frozen=True, slots=True)
class Told:
    """A report that was sent, and what it was made of."""

    report: CapacityReport
    servers: tuple[Engine, ...]
    scrapes: int
    failed: int


@dataclass(slots=True)
class Reporter:
    """Watches one pool; `say` hears of each scrape that failed and each report that did not go."""

    watched: Watched
    send: Send
    say: Say
    engines: list[Engine] = field(init=False)
    sent: Sent | None = None
    scrapes: int = 0
    failed: int = 0

    def __post_init__(self) -> None:
        self.engines = [Engine() for _ in self.watched.urls]

    async def reports(self) -> AsyncGenerator[Told, None]:
        """Scrape every `every_s` for ever; each report that the broker has."""
        async with ClientSession(timeout=ClientTimeout(PATIENCE_S)) as session:
            while True:
                start_s = time.monotonic()
                await self._scrape(session)
                told = await self._report(time.monotonic())
                if told is not None:
                    yield told
                took_s = time.monotonic() - start_s
                await asyncio.sleep(max(self.watched.every_s - took_s, 0))

    async def _scrape(self, session: ClientSession) -> None:
        found = await asyncio.gather(*(_sample(session, url) for url in self.watched.urls))
        for place, sample in enumerate(found):
            self.scrapes += 1
            before = self.engines[place]
            if isinstance(sample, Sample):
                self.engines[place] = heard(before, sample, self.watched.weights)
            else:
                self.failed += 1
                self.engines[place] = missed(before)
                self.say(f"{self.watched.urls[place]}: {sample}")

    async def _report(self, now_s: float) -> Told | None:
        watched = self.watched
        report = estimate(watched.pool, watched.source, self.engines, watched.each)
        if report is None or not is_due(self.sent, report, now_s) or not await self.send(report):
            return None
        self.sent = Sent(now_s, report)
        return Told(report, tuple(self.engines), self.scrapes, self.failed)


async def _sample(session: ClientSession, url: str) -> Sample | str:
    """What the server says now, or why that is not known."""
    try:
        async with session.get(url) as response:
            if response.status != 200:
                return f"HTTP {response.status}: 200 is needed"
            page = await response.content.read(LARGEST + 1)
            while len(page) <= LARGEST and (more := await response.content.read(LARGEST)):
                page += more
        if len(page) > LARGEST:
            return f"more than {LARGEST >> 20} MiB"
        return read_sample(page.decode(), time.monotonic())
    except TimeoutError:
        return f"no answer within {PATIENCE_S:g} s"
    except (ClientError, OSError) as error:
        return f"does not answer: {error}"
    except (BadInput, UnicodeDecodeError) as error:
        return str(error)
