"""The control worker on a real broker: exactly once, whatever happens to it."""

import asyncio
import random
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer

from streams.broker import Broker
from streams.config import Config
from streams.supervise import Child
from streams.topics import find_topics
from tests.broker.deployment import Deployment, deployed, until
from tests.broker.load import Load
from tests.chained import BREAKS_THE_CORE
from tests.pools import report
from tokenweir.core.pool import COUNTERS
from tokenweir.records.control import ControlDecision, GatewayLeases, Roster
from tokenweir.records.journal import DecisionEntry
from tokenweir.topics import partition_of
from tokenweir.wire import decode, encode

pytestmark = pytest.mark.broker

POOLS = ("chat", "code", "mail", "plan")
OUT = COUNTERS.index("tokens_out")
TAKEN_UP = re.compile(r"partition (\d+): goes on at offset")


async def decided(deployment: Deployment, pools: tuple[str, ...] = POOLS) -> bool:
    return set(pools) <= {
        entry.pool for entry in await deployment.journal() if isinstance(entry.body, DecisionEntry)
    }


async def at_work(deployment: Deployment, load: Load) -> None:
    """Wait until every pool has a decision."""
    await load.apply()

    async def ready() -> bool:
        deployment.assert_alive()
        await load.round()
        return await decided(deployment, load.pools)

    await until(ready, "a decision of every pool")


def folding(worker: Child) -> Callable[[], Awaitable[bool]]:
    """Whether a worker has folded records since its start."""

    async def folds() -> bool:
        return "goes on at offset" in worker.tail(1_000)

    return folds


async def assert_totals(deployment: Deployment, load: Load) -> None:
    await deployment.folded(load.pools, load.round)
    await deployment.assert_exact(load.pools)
    await deployment.assert_decisions_have_one_content()


async def test_usage_becomes_decisions_leases_and_totals(
    brokers: str, prefix: str, tmp_path: Path
) -> None:
    async with deployed(brokers, prefix, tmp_path, "0") as deployment:
        load = Load(deployment, POOLS)
        await at_work(deployment, load)
        await load.rounds(20)
        sent = dict(load.tokens)
        await assert_totals(deployment, load)
        for pool, state in (await deployment.states()).items():
            assert state.pool.totals[:, OUT].sum() >= sent[pool]
        control = await deployment.read(deployment.topics.control)
        keys = {record.key.decode() for record in control}
        assert {"chat", "chat/roster", "chat/gw-a/0", "chat/gw-b/0"} <= keys
        for record in control:
            pool = record.key.decode().split("/")[0]
            assert record.partition == partition_of(pool, 4)


async def test_a_decision_follows_its_leases_in_its_partition(
    brokers: str, prefix: str, tmp_path: Path
) -> None:
    async with deployed(brokers, prefix, tmp_path, "0") as deployment:
        load = Load(deployment, ("chat",))
        await at_work(deployment, load)
        await load.rounds(60, pause_s=0.05)
        seen: set[int] = set()
        rosters: set[int] = set()
        for record in await deployment.read(deployment.topics.control):
            value = decode(record.value)
            match value:
                case GatewayLeases():
                    seen.add(value.at_ms)
                case Roster():
                    rosters.add(value.spec_version)
                case ControlDecision(parts=parts):
                    assert value.spec_version in rosters
                    assert value.at_ms in seen or parts == 1
        assert len(seen) >= 2


@pytest.mark.experiment
async def test_s1_s2_s3_killed_at_random_every_record_counts_once(
    brokers: str, prefix: str, tmp_path: Path, full: bool
) -> None:
    """Field note 56: at full size about 300 000 rows of usage, 24 a round, and 10 kills."""
    chance = random.Random(56)
    kills, longest = (10, 2_400) if full else (3, 80)
    async with deployed(brokers, prefix, tmp_path, "0") as deployment:
        load = Load(deployment, POOLS)
        await at_work(deployment, load)
        for _ in range(kills):
            await load.rounds(chance.randrange(20, longest))
            deployment.workers["0"].kill()
            await load.rounds(chance.randrange(20))
            deployment.work("0")
        await assert_totals(deployment, load)


@pytest.mark.experiment
async def test_decisions_go_on_within_five_seconds_of_a_kill(
    brokers: str, prefix: str, tmp_path: Path, full: bool
) -> None:
    async with deployed(brokers, prefix, tmp_path, "0") as deployment:
        load = Load(deployment, ("chat",))
        await at_work(deployment, load)
        await load.rounds(20, 0.1)
        deployment.workers["0"].kill()
        before = len(await deployment.journal())
        deployment.work("0")

        async def went_on() -> bool:
            await load.round()
            return len(await deployment.journal()) > before

        took_s = await until(went_on, "a decision")
        print(f"decisions went on after {took_s:.1f} s")
        assert took_s < 5 or not full
        await assert_totals(deployment, load)


@pytest.mark.experiment
async def test_two_workers_join_die_and_return_and_every_record_counts_once(
    brokers: str, prefix: str, tmp_path: Path, full: bool
) -> None:
    async with deployed(brokers, prefix, tmp_path, "0") as deployment:
        load = Load(deployment, POOLS)
        await at_work(deployment, load)
        work = asyncio.create_task(load.rounds(100_000, 0.05))
        await until(folding(deployment.work("1")), "the other has partitions")
        deployment.workers["0"].kill()
        before = {e.id for e in await deployment.journal() if isinstance(e.body, DecisionEntry)}

        async def all_go_on() -> bool:
            new = {e.id for e in await deployment.journal() if isinstance(e.body, DecisionEntry)}
            return {name.split("@")[0] for name in new - before} == set(POOLS)

        took_s = await until(all_go_on, "decisions of all pools")
        print(f"decisions of all pools went on after {took_s:.1f} s")
        assert took_s < 15 or not full
        await until(folding(deployment.work("0")), "it has partitions again")
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await assert_totals(deployment, load)


def taken_up(worker: Child) -> list[int]:
    """The partitions that a worker has begun to fold since its start, each as often as it did."""
    return [int(found) for found in TAKEN_UP.findall(worker.tail(10_000))]


async def test_commits_reach_the_end_after_partitions_have_moved_there_and_back(
    brokers: str, prefix: str, tmp_path: Path
) -> None:
    """Field note 57: from one worker to another and back a second later; 1 000 messages more.

    worker 0  |--- all ----|- the rest -|--- all, and 1 000 messages ---> committed
    worker 1               |- some 1 s -|
    """
    async with deployed(brokers, prefix, tmp_path, "0") as deployment:
        load = Load(deployment, POOLS)
        await at_work(deployment, load)
        traffic = asyncio.create_task(load.rounds(100_000, 0.05))
        other = deployment.work("1")
        await until(folding(other), "the other has partitions")
        await asyncio.sleep(1)
        deployment.workers["1"].kill()
        moved, before = set(taken_up(other)), Counter(taken_up(deployment.workers["0"]))

        async def all_back() -> bool:
            again = Counter(taken_up(deployment.workers["0"])) - before
            return moved <= again.keys()

        await until(all_back, f"partitions {moved} are back")
        traffic.cancel()
        await asyncio.gather(traffic, return_exceptions=True)
        await load.rounds(1_000 // 8, pause_s=0)  # four pools, two gateways
        ends = await deployment.ends()

        async def committed() -> bool:
            await load.round()  # time goes on, for the checkpoint
            done = await deployment.committed()
            return all(done.get(partition, 0) >= end for partition, end in ends.items())

        took_s = await until(committed, "commits reach the end", deadline_s=30, pause_s=0.4)
        print(f"partitions {moved} went there and back, and were committed after {took_s:.1f} s")
        await assert_totals(deployment, load)


async def test_poison_pills_end_in_the_dead_letters_and_the_agent_goes_on(
    brokers: str, prefix: str, tmp_path: Path
) -> None:
    """59, 65, 67, 73: null, noise, an unknown schema, a wrong key, a wrong place, a wrong kind."""
    async with deployed(brokers, prefix, tmp_path, "0") as deployment:
        load = Load(deployment, ("chat",))
        await at_work(deployment, load)
        home = partition_of("chat", 4)
        good = encode(report("gw-x", 1, {"gold": 5}, pool="chat"))
        [decision, *_] = [
            entry for entry in await deployment.journal() if isinstance(entry.body, DecisionEntry)
        ]
        pills: list[tuple[bytes | None, bytes | None, int, str]] = [
            (b"chat", None, home, "null"),
            (b"chat", bytes(range(256)), home, "marker C3 01 is missing"),
            (b"chat", b"\xc3\x01" + b"\x07" * 8 + b"rest", home, "07" * 8),
            (b"code", good, home, "b'code'"),
            (None, good, home, "None"),
            (b"chat", good, (home + 1) % 4, f"expected {home}"),
            (b"chat", good[:-3], home, "UsageReport"),
            (b"chat", encode(decision), home, "JournalEntry does not belong"),
            (b"chat", encode(report(BREAKS_THE_CORE, 1, pool="chat")), home, "ZeroDivision"),
        ]
        offsets = []
        for key, value, partition, _ in pills:
            await load.rounds(5)
            offsets.append((partition, await deployment.send_raw(key, value, partition)))
        await load.rounds(5)
        await assert_totals(deployment, load)
        letters = {
            (letter.partition, letter.offset): letter for letter in await deployment.letters()
        }
        assert set(letters) == set(offsets)
        for place, (key, value, _, reason) in zip(offsets, pills, strict=True):
            assert (letters[place].key, letters[place].value) == (key, value)
            assert reason in letters[place].reason
            assert letters[place].topic == deployment.topics.usage
            assert letters[place].reader == "control"


async def test_the_worker_says_in_lines_what_is_wrong_with_the_topics(
    brokers: str, prefix: str, tmp_path: Path
) -> None:
    async with deployed(brokers, prefix, tmp_path, partitions=2) as deployment:
        deployment.config = Config(
            brokers=brokers, topic_prefix=prefix, data=tmp_path, partitions=4
        )
        worker = deployment.work("0")
        assert worker.wait(150)
        assert worker.exit_code == 1
        assert f"topic {prefix}tokenweir.usage.v1: partitions is 2, must be 4" in worker.tail()


@pytest.mark.experiment
async def test_the_worker_survives_a_broker_that_is_killed_and_comes_back(
    prefix: str, tmp_path: Path, full: bool
) -> None:
    with Broker(tmp_path / "kafka") as broker:
        async with deployed(broker.bootstrap, prefix, tmp_path, "0") as deployment:
            load = Load(deployment, ("chat", "plan"))
            await at_work(deployment, load)
            await load.rounds(20)
            broker.kill()
            await asyncio.sleep(3)
            broker.start()
            before = len(await deployment.journal())

            async def went_on() -> bool:
                deployment.assert_alive()
                await load.round()
                return len(await deployment.journal()) > before

            took_s = await until(went_on, "a decision")
            print(f"decisions went on {took_s:.1f} s after the broker's return")
            assert took_s < 20 or not full
            await assert_totals(deployment, load)


async def test_a_worker_that_is_asked_to_end_ends_well_and_goes_on_later(
    brokers: str, prefix: str, tmp_path: Path
) -> None:
    """63 too: the broker makes no topic by itself, and none but ours is there."""
    async with deployed(brokers, prefix, tmp_path, "0") as deployment:
        load = Load(deployment, ("chat",))
        await at_work(deployment, load)
        assert deployment.workers["0"].stop(150) == 0
        deployment.work("0")
        await assert_totals(deployment, load)
        ours = set(await find_topics(deployment.config, brokers))
        consumer = AIOKafkaConsumer(bootstrap_servers=brokers)
        await consumer.start()
        there = {name for name in await consumer.topics() if name.startswith(prefix)}
        await consumer.stop()
        assert there == ours
