"""Where a worker goes on when its tables, their changelogs or the log are not what they were."""

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from streams.app import state_folder
from streams.broker import Broker
from streams.checkpoint import MARKER
from streams.tables import TABLES, changelog_name
from streams.topics import create_topics, plans
from tests.broker.deployment import Deployment, deployed, until
from tests.broker.load import Load
from tests.broker.test_control import assert_totals, at_work
from tokenweir.records.journal import Break, SnapshotChunk
from tokenweir.topics import partition_of

pytestmark = pytest.mark.broker


@asynccontextmanager
async def admin_of(deployment: Deployment) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=deployment.brokers)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def delete_records(deployment: Deployment, topic: str, upto: dict[int, int]) -> None:
    """As retention does it: everything below these offsets is gone."""
    places = {
        TopicPartition(topic, partition): RecordsToDelete(before_offset=offset)
        for partition, offset in upto.items()
    }
    async with admin_of(deployment) as admin:
        await admin.delete_records(places)


async def set_policy(deployment: Deployment, topic: str, policy: str) -> None:
    [plan] = [plan for plan in plans(deployment.config) if plan.name == topic]
    settings = {**plan.settings(), "cleanup.policy": policy}
    async with admin_of(deployment) as admin:
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, settings)])


async def empty(deployment: Deployment, topic: str) -> None:
    """All records are gone, and the offsets go on, as after a retention that nobody wanted."""
    await set_policy(deployment, topic, "compact,delete")
    await delete_records(deployment, topic, dict.fromkeys(range(4), -1))
    await set_policy(deployment, topic, "compact")


async def make_anew(deployment: Deployment, topic: str) -> None:
    """The topic was deleted and created again: its offsets begin at 0."""
    async with admin_of(deployment) as admin:
        await admin.delete_topics([topic])

        async def gone() -> bool:
            return topic not in await admin.list_topics()

        await until(gone, "the topic's end")
    await create_topics(deployment.config, deployment.brokers)


async def goes_on(deployment: Deployment, load: Load) -> None:
    """The worker decides again."""
    before = len(await deployment.journal())

    async def decided() -> bool:
        deployment.assert_alive()
        await load.round()
        return len(await deployment.journal()) > before

    await until(decided, "a decision")


@pytest.mark.parametrize(("local", "how"), [("lost", empty), ("kept", make_anew)])
async def test_55_without_changelogs_the_worker_is_ready_and_its_state_is_whole(
    brokers: str,
    prefix: str,
    tmp_path: Path,
    local: str,
    how: Callable[[Deployment, str], Awaitable[None]],
) -> None:
    """From RocksDB where it is kept; else from the journal's snapshots and the log."""
    async with deployed(brokers, prefix, tmp_path, "0") as deployment:
        load = Load(deployment, ("chat", "plan"))
        await at_work(deployment, load)
        await assert_totals(deployment, load)
        deployment.workers["0"].kill()
        for table in TABLES:
            await how(deployment, changelog_name(deployment.config, table))
        if local == "lost":
            shutil.rmtree(state_folder(deployment.config))
        deployment.work("0")
        await goes_on(deployment, load)
        if local == "lost":  # else the changelogs have the changed rows only
            await assert_totals(deployment, load)


@pytest.mark.experiment
async def test_64_a_worker_finds_its_tables_again_on_the_older_kafka(
    prefix: str, tmp_path: Path, full: bool
) -> None:
    if not full:
        pytest.skip("at full size only: make experiments")
    with Broker(tmp_path / "kafka", version="3.9.1") as older:
        async with deployed(older.bootstrap, prefix, tmp_path, "0") as deployment:
            load = Load(deployment, ("chat", "plan"))
            await at_work(deployment, load)
            await assert_totals(deployment, load)
            deployment.workers["0"].kill()
            shutil.rmtree(state_folder(deployment.config))
            deployment.work("0")
            await goes_on(deployment, load)
            await assert_totals(deployment, load)


async def test_s3_rows_that_do_not_fit_the_marker_give_way_to_a_snapshot(
    brokers: str, prefix: str, tmp_path: Path
) -> None:
    """As after a crash between rows and marker: one row is newer than the marker says."""
    async with deployed(brokers, prefix, tmp_path, "0") as deployment:
        load = Load(deployment, ("chat", "plan"))
        await at_work(deployment, load)
        await assert_totals(deployment, load)
        deployment.workers["0"].kill()
        shutil.rmtree(state_folder(deployment.config))
        home = partition_of("chat", 4)
        await deployment.producer.send_and_wait(
            changelog_name(deployment.config, "debt"),
            b"1 of another run",
            f"{home}/debt/chat/chain".encode(),
            partition=home,
        )
        deployment.work("0")
        await goes_on(deployment, load)
        await assert_totals(deployment, load)
        assert any(isinstance(entry.body, SnapshotChunk) for entry in await deployment.journal())


async def test_s5_a_range_that_is_gone_from_the_log_is_a_break_and_a_snapshot(
    brokers: str, prefix: str, tmp_path: Path
) -> None:
    async with deployed(brokers, prefix, tmp_path, "0") as deployment:
        load = Load(deployment, ("chat",))
        await at_work(deployment, load)
        await assert_totals(deployment, load)
        deployment.workers["0"].kill()
        home = partition_of("chat", 4)
        await load.rounds(20)
        gone = await deployment.send_raw(b"chat", None, home)
        await delete_records(deployment, deployment.topics.usage, {home: gone})
        deployment.work("0")
        await goes_on(deployment, load)
        [broken] = [e for e in await deployment.journal() if isinstance(e.body, Break)]
        assert isinstance(broken.body, Break)
        assert broken.pool == "chat"
        assert f"to {gone - 1} are gone" in broken.body.why
        assert broken.body.next_offset == gone
        snapshots = [
            e.body for e in await deployment.journal() if isinstance(e.body, SnapshotChunk)
        ]
        assert gone in {snapshot.next_offset for snapshot in snapshots}


async def test_a_marker_of_another_arithmetic_is_a_break(
    brokers: str, prefix: str, tmp_path: Path
) -> None:
    """S5: the numbers before and after it must not be compared."""
    async with deployed(brokers, prefix, tmp_path, "0") as deployment:
        load = Load(deployment, ("chat",))
        await at_work(deployment, load)
        await assert_totals(deployment, load)
        deployment.workers["0"].kill()
        home = partition_of("chat", 4)
        changelog, key = changelog_name(deployment.config, "pools"), f"{home}/{MARKER}".encode()
        [*_, newest] = [r for r in await deployment.read(changelog) if r.key == key]
        await deployment.producer.send_and_wait(
            changelog,
            newest.value.replace(b'"arithmetic":', b'"arithmetic":9'),
            key,
            partition=home,
        )
        deployment.work("0")
        await goes_on(deployment, load)
        whys = [e.body.why for e in await deployment.journal() if isinstance(e.body, Break)]
        assert whys
        assert all("gave way to" in why for why in whys)
        await assert_totals(deployment, load)
