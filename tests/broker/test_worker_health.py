"""Field note 58: what stalls turns `/healthz` red, what does not goes on, and then all is green."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.broker.deployment import CHAINED_WORKER, REAL_WORKER, Deployment, deployed, until
from tests.broker.gathering import free_port
from tests.broker.hanging import Hanging
from tests.broker.load import Load
from tests.broker.test_control import POOLS, assert_totals, at_work, folding
from tests.broker.test_history_agent import GRACE_S, PARTITIONS, Site, site_on
from tests.broker.test_history_agent import POOLS as TWO_POOLS
from tests.loopback import get
from tokenweir.records.journal import DecisionEntry
from tokenweir.topics import partition_of

pytestmark = pytest.mark.broker

RED_S = 60
STORED = """
    SELECT partition, count(), uniqExact(offset) FROM records
    WHERE topic = '{topic}' GROUP BY partition ORDER BY partition
"""


async def problems(port: int) -> list[str]:
    """What a worker says of its health; nothing when it is well."""
    status, body = await asyncio.to_thread(get, port, "/healthz")
    found = json.loads(body)
    assert found["ok"] == (status == 200) == (not found["problems"])
    return list(found["problems"])


def red(*ports: int) -> Callable[[], Awaitable[bool]]:
    """Whether one of them is."""

    async def found() -> bool:
        return any([await problems(port) for port in ports])

    return found


def green(*ports: int) -> Callable[[], Awaitable[bool]]:
    """Whether all of them are."""

    async def found() -> bool:
        return not any([await problems(port) for port in ports])

    return found


def decided_since(deployment: Deployment, *pools: str) -> Callable[[], Awaitable[bool]]:
    """Whether each of the pools has decisions that were not there at the first call."""
    before: list[set[str]] = []

    async def found() -> bool:
        entries = [e for e in await deployment.journal() if isinstance(e.body, DecisionEntry)]
        before.append({entry.id for entry in entries})
        return set(pools) <= {entry.pool for entry in entries if entry.id not in before[0]}

    return found


async def stored(site: Site) -> dict[int, tuple[int, int]]:
    """Of each partition of the usage log, its rows in `records` and their different offsets."""
    sql = STORED.format(topic=site.topics.usage)
    return {at: (rows, offsets) for at, rows, offsets in await asyncio.to_thread(site.ask, sql)}


@pytest.mark.clickhouse
async def test_an_insert_that_hangs_is_red_for_its_partition_and_the_others_go_on(
    brokers: str, database: str, prefix: str, tmp_path: Path
) -> None:
    ports = free_port(), free_port()
    control, history = ports
    worker = (*REAL_WORKER, f"--metrics-port={control}")
    hurt, fine = (partition_of(pool, PARTITIONS) for pool in TWO_POOLS)
    url, _, name = database.rpartition("/")
    async with (
        Hanging(url) as clickhouse,
        site_on(brokers, f"{clickhouse.url}/{name}", prefix, tmp_path) as site,
        deployed(brokers, prefix, tmp_path, "0", partitions=2, worker=worker) as deployment,
    ):
        load = Load(deployment, tuple(TWO_POOLS))
        await at_work(deployment, load)
        site.history("0", f"--metrics-port={history}")
        traffic = asyncio.create_task(load.rounds(100_000, 0.1))

        async def both() -> bool:
            return len(await stored(site)) == 2

        await until(both, "both partitions are stored")
        assert await green(*ports)()
        clickhouse.place = f"{site.topics.usage}/{hurt}"
        await asyncio.sleep(2)  # what was under way has ended
        before = await stored(site)
        took_s = await until(red(history), "the history is red", RED_S, pause_s=1)
        [problem] = await problems(history)
        print(f"red after {took_s + 2:.1f} s: {problem}")
        assert f"partition {hurt} of {site.topics.usage}: messages wait and none" in problem

        now = await stored(site)
        assert now[hurt] == before[hurt]
        assert now[fine] > before[fine]
        journal = "SELECT max(at) FROM decisions"
        newest = await asyncio.to_thread(site.ask, journal)

        async def others_go_on() -> bool:
            later = await stored(site)
            return later[fine] > now[fine] and await asyncio.to_thread(site.ask, journal) > newest

        await until(others_go_on, "the other partition and the journal go on", 30)
        await until(decided_since(deployment, *TWO_POOLS), "decisions of both pools", 30)
        assert await green(control)()

        clickhouse.heal()
        took_s = await until(green(history), "the history is green", RED_S)
        print(f"green after {took_s:.1f} s")
        traffic.cancel()
        await asyncio.gather(traffic, return_exceptions=True)
        ends = {at: (end, end) for at, end in (await deployment.ends()).items()}

        async def all_once() -> bool:
            return await stored(site) == ends

        await until(all_once, f"all is stored once: {ends}")
        assert site.histories["0"].stop(GRACE_S) == 0


async def test_a_worker_whose_event_loop_is_stuck_is_red_and_the_other_goes_on(
    brokers: str, prefix: str, tmp_path: Path
) -> None:
    ports = free_port(), free_port()
    hold = tmp_path / "hold"
    async with deployed(
        brokers, prefix, tmp_path, "0", worker=(*CHAINED_WORKER, str(ports[0]))
    ) as deployment:
        load = Load(deployment, POOLS)
        await at_work(deployment, load)
        deployment.worker = (*CHAINED_WORKER, str(ports[1]))
        traffic = asyncio.create_task(load.rounds(100_000, 0.1))
        await until(folding(deployment.work("1")), "the other has partitions")
        await until(decided_since(deployment, *POOLS), "decisions of all pools")
        assert await green(*ports)()

        hold.write_text(POOLS[0])
        took_s = await until(red(*ports), "one is red", RED_S, pause_s=1)
        await asyncio.sleep(6)  # its other partitions may be found at the next look
        said = {port: await problems(port) for port in ports}
        print(f"red after {took_s:.1f} s: {said}")
        [stuck] = [port for port in ports if said[port]]
        home = f"partition {partition_of(POOLS[0], 4)} of {deployment.topics.usage}: "
        assert any(problem.startswith(home) for problem in said[stuck])
        others = {pool for pool in POOLS if not any(_is_of(pool, text) for text in said[stuck])}
        assert others
        await until(decided_since(deployment, *others), "the other worker decides", 30)

        hold.unlink()
        took_s = await until(green(*ports), "both are green", RED_S)
        print(f"green after {took_s:.1f} s; {sorted(others)} went on")
        traffic.cancel()
        await asyncio.gather(traffic, return_exceptions=True)
        await assert_totals(deployment, load)
        assert deployment.workers["0"].stop(150) == 0


def _is_of(pool: str, problem: str) -> bool:
    return problem.startswith(f"partition {partition_of(pool, 4)} ")
