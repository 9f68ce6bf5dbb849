"""A pool's capacity from outside its spec, through a real control worker."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.broker.commands import Done, command, process
from tests.broker.deployment import Deployment, deployed, until
from tests.broker.load import Load
from tests.unit.capacity.pages_server import served
from tests.unit.capacity.recorded_pages import UNDER_LOAD
from tokenweir.records.control import ControlDecision
from tokenweir.records.usage import CapacityReport
from tokenweir.wire import decode

pytestmark = pytest.mark.broker


@asynccontextmanager
async def at_work(brokers: str, prefix: str, data: Path) -> AsyncIterator[tuple[Deployment, Load]]:
    """A pool of ten thousand tokens a second that is decided on."""
    async with deployed(brokers, prefix, data, "0") as deployment:
        load = Load(deployment, ("chat",))
        await load.apply()

        async def decided() -> bool:
            deployment.assert_alive()
            await load.round()
            return bool(await capacities(deployment))

        await until(decided, "a decision")
        yield deployment, load


async def capacities(deployment: Deployment) -> list[int]:
    records = [decode(record.value) for record in await deployment.read(deployment.topics.control)]
    return [record.capacity for record in records if isinstance(record, ControlDecision)]


async def reported(deployment: Deployment) -> list[CapacityReport]:
    records = [decode(record.value) for record in await deployment.read(deployment.topics.usage)]
    return [record for record in records if isinstance(record, CapacityReport)]


async def meanwhile(load: Load, running: Coroutine[None, None, Done]) -> Done:
    """Gateways go on reporting while a command runs: that moves the pool's time."""
    task = asyncio.ensure_future(running)
    while not task.done():
        await load.round()
        await asyncio.wait([task], timeout=0.1)
    return task.result()


async def test_what_is_set_is_in_force_at_the_next_decision_and_shown(
    brokers: str, prefix: str, tmp_path: Path
) -> None:
    async with at_work(brokers, prefix, tmp_path) as (deployment, load):
        line = ("capacity", "set", "chat", "--tokens-per-s", "7k/s", "--sequences", "64")
        done = await meanwhile(load, command(deployment, *line, "--wait", "120"))
        assert done.code == 0, done.err
        began = "pool chat: 7 000 tokens/s, 64 sequences: in force since decision chat@"
        assert done.out.startswith(began)
        assert (await capacities(deployment))[-1] == 7_000_000
        shown = (await command(deployment, "capacity", "show", "chat", "-o", "json")).json
        assert shown["capacity_milli_tokens_per_s"] == 7_000_000
        assert shown["in_force"].startswith("7000 tokens/s, 64 sequences, since decision chat@")
        cli, spec = shown["sources"]
        assert (cli["source"], cli["sequences"], cli["kv_bytes"]) == ("cli", 64, None)
        assert (spec["source"], spec["milli_tokens_per_s"]) == ("spec version 1", 10_000_000)
        table = (await command(deployment, "capacity", "show", "chat")).out
        assert [row.split()[:2] for row in table.splitlines()[3:]] == [
            ["cli", "7k/s"],
            ["spec", "version"],
        ]
        done = await command(deployment, "capacity", "set", "caht", "--sequences", "1")
        assert done.err == "--pool caht: no decision yet; pools with one: chat\n"


async def test_engines_that_are_scraped_tell_the_pool_and_one_that_is_gone_counts_0(
    brokers: str, prefix: str, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(UNDER_LOAD.read_text())
    async with at_work(brokers, prefix, tmp_path / "data") as (deployment, load):
        with served(tmp_path) as url:
            line = ["capacity", "report", "--pool", "chat", "--every", "100 ms", "--count", "2"]
            line += ["--url", f"{url}/a", "--url", f"{url}/b"]
            line += ["--tokens-per-s", "4k/s", "--kv-bytes-per-token", "128 KiB"]
            task = asyncio.ensure_future(process(deployment, *line))

            async def told() -> bool:
                return len(await reported(deployment)) == 1

            await until(told, "a report")
            (tmp_path / "b").unlink()
            done = await meanwhile(load, _of(task))
        assert done.code == 0, done.err
        kv_bytes = 2_097_152 * 128 * 1024
        assert await reported(deployment) == [
            CapacityReport("chat", "vllm", 8_000_000, 2 * kv_bytes, None),
            CapacityReport("chat", "vllm", 4_000_000, kv_bytes, None),
        ]
        assert "2 of 2 servers up; 8 running, 192 waiting; KV caches 0% full" in done.out
        assert "1 of 2 servers up" in done.out

        async def obeyed() -> bool:
            await load.round()
            return (await capacities(deployment))[-1] == 4_000_000

        await until(obeyed, "the capacity of one server")


async def _of(task: "asyncio.Future[Done]") -> Done:
    return await task
