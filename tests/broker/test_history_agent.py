"""The history agent as a process, on a real broker and a real ClickHouse: each row once (H1-H3)."""

import asyncio
import os
import random
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from streams.broker import Broker
from streams.clickhouse import LocalClickHouse
from streams.config import CHECKOUT, Config
from streams.parts import environment
from streams.supervise import Child
from streams.topics import create_topics
from tests.unit.history.made import NOON_MS, Increment, audit_entry, decision_entry, report
from tokenweir.history.client import connect
from tokenweir.records.journal import DeadLetter
from tokenweir.topics import Topics, partition_of
from tokenweir.wire import decode_as, encode

pytestmark = [pytest.mark.broker, pytest.mark.clickhouse]

PARTITIONS = 2
# One pool in each of the partitions.
POOLS = [
    next(name for n in range(99) if partition_of(name := f"pool-{n}", PARTITIONS) == partition)
    for partition in range(PARTITIONS)
]
# It gives its last inserts 5 s and Kafka 2 s; what never ends by itself is killed, and is no 0.
GRACE_S = 60


class Site:
    """Topics, a database and history processes of one test."""

    def __init__(self, brokers: str, clickhouse: str, prefix: str, data: Path) -> None:
        self.config = Config(
            brokers=brokers,
            clickhouse=clickhouse,
            topic_prefix=prefix,
            application=f"{prefix}app",
            data=data,
            partitions=PARTITIONS,
        )
        self.topics = Topics(prefix)
        self.producer: Any = None
        self.histories: dict[str, Child] = {}
        self.sequence = 0

    def history(self, name: str = "0", *options: str) -> Child:
        """Start a history process, or start it again with the options that it had."""
        if name not in self.histories:
            self.histories[name] = Child(
                f"history-{name}",
                [sys.executable, "-m", "streams", "history", *options],
                log=self.config.data / f"history-{name}.log",
                env=environment(os.environ, self.config, name),
                cwd=CHECKOUT,
            )
        self.histories[name].start()
        return self.histories[name]

    async def send(self, topic: str, pool: str, value: bytes | None) -> None:
        """Append one record."""
        await self.producer.send_and_wait(topic, value, key=pool.encode())

    async def report(self, rows: int = 10) -> None:
        """One gateway's next report in every pool."""
        self.sequence += 1
        made = [Increment(f"{self.sequence}-{n}", out=1) for n in range(rows)]
        for pool in POOLS:
            await self.send(
                self.topics.usage, pool, encode(report(self.sequence, *made, pool=pool))
            )

    def ask(self, sql: str) -> list[Any]:
        """The rows of an answer; none while ClickHouse does not answer or has no tables."""
        try:
            client = connect(self.config.clickhouse or "")
            found = list(client.query(sql).result_rows)
        except Exception:
            return []
        client.close()
        return found

    async def until(self, sql: str, answer: list[Any], deadline_s: float = 150) -> None:
        """Wait for an answer."""
        end_s = time.monotonic() + deadline_s
        while (found := await asyncio.to_thread(self.ask, sql)) != answer:
            logs = "".join(child.tail() for child in self.histories.values())
            assert time.monotonic() < end_s, f"{sql}: {found}, not {answer}\n{logs}"
            await asyncio.sleep(0.1)

    async def letters(self, count: int) -> list[DeadLetter]:
        """The first dead letters."""
        async with AIOKafkaConsumer(
            self.topics.dead_letter,
            bootstrap_servers=self.config.brokers,
            auto_offset_reset="earliest",
        ) as consumer:
            records = [await asyncio.wait_for(consumer.getone(), 150) for _ in range(count)]
        return [decode_as(DeadLetter, found.value) for found in records]


@asynccontextmanager
async def site_on(brokers: str, clickhouse: str, prefix: str, data: Path) -> AsyncIterator[Site]:
    site = Site(brokers, clickhouse, prefix, data)
    await create_topics(site.config, brokers)
    async with AIOKafkaProducer(bootstrap_servers=brokers, enable_idempotence=True) as producer:
        site.producer = producer
        try:
            yield site
        finally:
            for child in site.histories.values():
                child.kill()


@pytest.fixture
async def site(brokers: str, database: str, prefix: str, tmp_path: Path) -> AsyncIterator[Site]:
    async with site_on(brokers, database, prefix, tmp_path) as opened:
        yield opened


ROWS = "SELECT count(), uniqExact(partition, offset, index), sum(tokens_out) FROM usage"


@pytest.mark.chaos
@pytest.mark.experiment
async def test_kill_9_between_reading_and_inserting_loses_and_doubles_nothing(
    site: Site, full: bool
) -> None:
    """Field note 8; promise 5."""
    dice = random.Random(8)
    child = site.history()
    for _ in range(20 if full else 5):
        for _ in range(15):
            await site.report()
        end_s = time.monotonic() + dice.uniform(0.5, 3.0)
        while time.monotonic() < end_s:
            await site.report()
            await asyncio.sleep(0.02)
        child.kill()
        child = site.history()
    count = site.sequence * 10 * PARTITIONS
    await site.until(ROWS, [(count, count, count)])
    # Another table is another insert: it may come a moment later.
    outcomes = "SELECT outcome, count() FROM records GROUP BY outcome"
    await site.until(outcomes, [("taken", site.sequence * PARTITIONS)])


async def test_what_cannot_be_read_goes_to_the_dead_letters_and_the_rest_goes_on(
    site: Site,
) -> None:
    """Field note 65, on both logs."""
    site.history()
    await site.report()
    unreadable = replace(report(2, Increment(out=1), pool=POOLS[0]), requests=b"random")
    for value in (None, os.urandom(50), encode(audit_entry(NOON_MS, 0)), encode(unreadable)):
        await site.send(site.topics.usage, POOLS[0], value)
    for value in (None, os.urandom(50), encode(unreadable)):
        await site.send(site.topics.journal, POOLS[0], value)
    site.sequence = 2
    await site.report()
    await site.send(site.topics.journal, POOLS[0], encode(decision_entry(NOON_MS, pool=POOLS[0])))
    await site.until(ROWS, [(40, 40, 40)])
    await site.until("SELECT offset FROM decisions", [(3,)])
    letters = await site.letters(4)
    assert sorted((letter.topic, letter.offset) for letter in letters) == [
        (site.topics.journal, 0),
        (site.topics.journal, 1),
        (site.topics.journal, 2),
        (site.topics.usage, 4),
    ]
    assert {letter.reader for letter in letters} == {"history"}
    bad = site.ask("SELECT count() FROM records WHERE outcome = 'bad'")
    assert bad == [(3,)]


async def test_it_ends_at_sigterm_with_all_that_it_has_read(site: Site) -> None:
    child = site.history()
    await site.report()
    await site.until(ROWS, [(20, 20, 20)])
    await site.report()
    assert child.stop(GRACE_S) == 0
    child.start()
    await site.until(ROWS, [(40, 40, 40)])


@pytest.mark.chaos
async def test_two_share_the_logs_and_one_can_die_for_good(site: Site) -> None:
    first = site.history("a")
    for _ in range(10):
        await site.report()
    site.history("b")
    for _ in range(40):
        await site.report()
        await asyncio.sleep(0.1)
    first.kill()
    await site.report()
    count = site.sequence * 10 * PARTITIONS
    await site.until(ROWS, [(count, count, count)])


@pytest.mark.chaos
async def test_clickhouse_may_be_killed_and_come_back(
    brokers: str, prefix: str, tmp_path: Path
) -> None:
    """Also at SIGTERM: what could not be inserted is read again."""
    with LocalClickHouse(tmp_path / "clickhouse") as clickhouse:
        async with site_on(brokers, clickhouse.url, prefix, tmp_path) as site:
            child = site.history()
            for _ in range(3):
                for _ in range(20):
                    await site.report()
                clickhouse.kill()
                await site.report()
                await asyncio.sleep(1)
                clickhouse.start()
            count = site.sequence * 10 * PARTITIONS
            await site.until(ROWS, [(count, count, count)])
            clickhouse.kill()
            await site.report()
            assert child.stop(GRACE_S) == 0
            clickhouse.start()
            child.start()
            await site.until(ROWS, [(count + 20, count + 20, count + 20)])


@pytest.mark.chaos
async def test_the_broker_may_be_killed_and_come_back(
    database: str, prefix: str, tmp_path: Path
) -> None:
    """Also at SIGTERM: what was not inserted is read again."""
    with Broker(tmp_path / "kafka") as broker:
        async with site_on(broker.bootstrap, database, prefix, tmp_path) as site:
            child = site.history()
            for _ in range(20):
                await site.report()
            broker.kill()
            await asyncio.sleep(2)
            broker.start()
            await site.report()
            count = site.sequence * 10 * PARTITIONS
            await site.until(ROWS, [(count, count, count)])
            await site.report()
            broker.kill()
            assert child.stop(GRACE_S) == 0
            broker.start()
            child.start()
            await site.until(ROWS, [(count + 20, count + 20, count + 20)])


async def test_tables_of_another_log_are_one_clear_line_and_exit_1(site: Site) -> None:
    child = site.history()
    await site.report()
    await site.until(ROWS, [(20, 20, 20)])
    assert child.stop(GRACE_S) == 0
    client = connect(site.config.clickhouse or "")
    client.command("INSERT INTO records SELECT * REPLACE (1000 AS offset) FROM records")
    client.close()
    child.start()
    assert child.wait(150)
    assert child.exit_code == 1
    assert "they are of another log" in child.tail()
