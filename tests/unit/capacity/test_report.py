"""The reporter against a real HTTP server: what it sends, and what it passes over."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from tests.unit.capacity.pages_server import served
from tests.unit.capacity.recorded_pages import UNDER_LOAD
from tokenweir.capacity.estimate import Each
from tokenweir.capacity.report import Reporter, Told, Watched
from tokenweir.records.spec import TokenWeights
from tokenweir.records.usage import CapacityReport

EQUAL = TokenWeights(1_000_000, 1_000_000, 1_000_000)
EACH = Each(rate=10_000_000, kv_bytes_per_token=1000, sequences=256)
KV_TOKENS = 2_097_152
DEADLINE_S = 60


class Heard:
    """A log in memory that can be away."""

    def __init__(self) -> None:
        self.reports: list[CapacityReport] = []
        self.said: list[str] = []
        self.is_there = True

    async def send(self, report: CapacityReport) -> bool:
        if self.is_there:
            self.reports.append(report)
        return self.is_there


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        (tmp_path / name).write_text(UNDER_LOAD.read_text())
    return tmp_path


def reporter(heard: Heard, *urls: str) -> Reporter:
    watched = Watched("chat", "vllm", urls, EACH, EQUAL, every_s=0.02)
    return Reporter(watched, heard.send, heard.said.append)


async def until(true: Callable[[], bool]) -> None:
    start_s = time.monotonic()
    while not true():
        assert time.monotonic() - start_s < DEADLINE_S
        await asyncio.sleep(0.01)


async def next_of(reports: AsyncIterator[Told]) -> CapacityReport:
    async with asyncio.timeout(DEADLINE_S):
        return (await anext(reports)).report


async def test_servers_add_up_and_one_that_is_gone_counts_0(folder: Path) -> None:
    heard = Heard()
    one = CapacityReport("chat", "vllm", 10_000_000, KV_TOKENS * 1000, 256)
    two = CapacityReport("chat", "vllm", 20_000_000, 2 * KV_TOKENS * 1000, 512)
    with served(folder) as url:
        found = reporter(heard, f"{url}/a", f"{url}/b")
        async with aclosing(found.reports()) as reports:
            assert await next_of(reports) == two
            (folder / "b").rename(folder / "away")
            assert await next_of(reports) == one
            (folder / "away").rename(folder / "b")
            assert await next_of(reports) == two
    assert heard.reports == [two, one, two]
    assert heard.said[:3] == [f"{url}/b: HTTP 404: 200 is needed"] * 3
    assert found.failed == len(heard.said)


async def test_pages_that_make_no_sense_are_said_and_counted_and_nothing_is_sent(
    folder: Path,
) -> None:
    heard = Heard()
    text = (folder / "a").read_text()
    (folder / "a").write_text(text.replace("} 4.0", "} NaN"))
    (folder / "b").write_text("busy")
    with served(folder) as url:
        found = reporter(heard, f"{url}/a", f"{url}/b", "http://127.0.0.1:1/metrics")
        async with aclosing(found.reports()) as reports:
            waiting = asyncio.ensure_future(anext(reports))
            await until(lambda: found.failed >= 12)
            assert not waiting.done()
            waiting.cancel()
            await asyncio.wait([waiting])
    assert heard.reports == []
    assert heard.said[0] == f"{url}/a: vllm:num_requests_running is nan: a number from 0 is allowed"
    assert heard.said[1].startswith(f"{url}/b: ")
    assert heard.said[2].startswith("http://127.0.0.1:1/metrics: does not answer: ")


async def test_a_report_that_the_broker_has_not_is_sent_again(folder: Path) -> None:
    heard = Heard()
    heard.is_there = False
    with served(folder) as url:
        found = reporter(heard, f"{url}/a")
        async with aclosing(found.reports()) as reports:
            waiting = asyncio.ensure_future(anext(reports))
            await until(lambda: found.scrapes >= 3)
            heard.is_there = True
            told = await asyncio.wait_for(waiting, DEADLINE_S)
    assert [told.report] == heard.reports
