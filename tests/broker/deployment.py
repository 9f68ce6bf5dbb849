"""Control workers as processes, with what they read and wrote looked at from outside."""

import asyncio
import os
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from streams.checkpoint import MARKER, Marker, decode_marker
from streams.config import CHECKOUT, Config
from streams.parts import environment
from streams.supervise import Child
from streams.tables import TABLES, application_id, changelog_name
from streams.topics import create_topics
from tests.chained import BREAKS_THE_CORE, CHAINED, Chained, chain_of
from tokenweir.errors import BadRecord
from tokenweir.records.journal import DeadLetter, JournalEntry
from tokenweir.topics import Topics, partition_of
from tokenweir.usage_log import USAGE_KINDS
from tokenweir.wire import decode, encode

CHAINED_WORKER = ("-m", "tests.broker.chained_worker")
REAL_WORKER = ("-m", "streams", "control")
DEADLINE_S = 150  # of waits, for machines that are slow or busy


async def until(
    true: Callable[[], Awaitable[bool]],
    what: str,
    deadline_s: float = DEADLINE_S,
    pause_s: float = 0.2,
) -> float:
    """Wait for a condition; how many seconds it took."""
    start = time.monotonic()
    while not await true():
        assert time.monotonic() - start < deadline_s, f"not within {deadline_s} s: {what}"
        await asyncio.sleep(pause_s)
    return time.monotonic() - start


class Deployment:
    """One set of topics, and the control workers on it."""

    def __init__(
        self,
        brokers: str,
        prefix: str,
        data: Path,
        partitions: int = 4,
        worker: Sequence[str] = CHAINED_WORKER,
    ) -> None:
        self.brokers, self.worker = brokers, worker
        self.config = Config(brokers=brokers, topic_prefix=prefix, data=data, partitions=partitions)
        self.topics = Topics(prefix)
        self.workers: dict[str, Child] = {}
        self.producer: Any = None

    async def start(self, *workers: str) -> None:
        """Make the topics and start these workers."""
        await create_topics(self.config, self.brokers)
        self.producer = AIOKafkaProducer(
            bootstrap_servers=self.brokers, enable_idempotence=True, max_request_size=4 << 20
        )
        await self.producer.start()
        for name in workers:
            self.work(name)

    def work(self, name: str = "0") -> Child:
        """Start a worker, or start it again."""
        if name not in self.workers:
            self.workers[name] = Child(
                f"control-{name}",
                [sys.executable, *self.worker],
                log=self.config.data / f"control-{name}.log",
                env=environment(os.environ, self.config, name),
                cwd=CHECKOUT,
            )
        self.workers[name].start()
        return self.workers[name]

    def assert_alive(self) -> None:
        """Fail with the log's end if a worker has ended by itself with an error."""
        for worker in self.workers.values():
            assert worker.exit_code in (None, -9, -15), worker.tail()

    async def stop(self) -> None:
        """End everything."""
        for worker in self.workers.values():
            worker.kill()
        if self.producer is not None:
            await self.producer.stop()

    async def send(self, record: Any) -> int:
        """Produce a record to the usage topic as gateways do; its offset."""
        return await self.send_raw(record.pool.encode(), encode(record))

    async def send_raw(
        self, key: bytes | None, value: bytes | None, partition: int | None = None
    ) -> int:
        """Produce bytes; without a partition to that of the key."""
        if partition is None:
            partition = partition_of((key or b"").decode(), self.config.partitions)
        sent = await self.producer.send_and_wait(self.topics.usage, value, key, partition=partition)
        return int(sent.offset)

    async def read(self, topic: str) -> list[Any]:
        """All records of a topic, as aiokafka gives them."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.brokers, auto_offset_reset="earliest", enable_auto_commit=False
        )
        await consumer.start()
        places = [TopicPartition(topic, number) for number in range(self.config.partitions)]
        consumer.assign(places)
        ends = await consumer.end_offsets(places)
        found: list[Any] = []
        for place in places:
            consumer.pause(*places)
            consumer.resume(place)
            while await consumer.position(place) < ends[place]:
                for records in (await consumer.getmany(place, timeout_ms=500)).values():
                    found += [record for record in records if record.offset < ends[place]]
        await consumer.stop()
        return found

    async def journal(self) -> list[JournalEntry]:
        """What happened, in the order of the journal's partitions."""
        return [decode(record.value) for record in await self.read(self.topics.journal)]

    async def letters(self) -> list[DeadLetter]:
        """What could not be used."""
        return [decode(record.value) for record in await self.read(self.topics.dead_letter)]

    async def markers(self) -> dict[int, Marker]:
        """Each partition's newest marker."""
        name = changelog_name(self.config, "pools")
        newest: dict[int, Marker] = {}
        for record in await self.read(name):
            if record.key == f"{record.partition}/{MARKER}".encode() and record.value:
                newest[record.partition] = decode_marker(record.value)
        return newest

    async def states(self) -> dict[str, Chained]:
        """Every pool as the tables' changelogs have it."""
        rows: dict[str, dict[str, bytes]] = defaultdict(dict)
        for table in TABLES:
            for record in await self.read(changelog_name(self.config, table)):
                _, key = record.key.decode().split("/", 1)
                if key == MARKER:
                    continue
                pool = key.split("/")[1]
                if record.value is None:
                    rows[pool].pop(key, None)
                else:
                    rows[pool][key] = record.value
        return {pool: CHAINED.from_rows(found) for pool, found in rows.items()}

    async def folded(self, pools: Sequence[str], tick: Callable[[], Awaitable[object]]) -> None:
        """Keep the pools' time moving until a checkpoint covers all that was there before."""
        ends = await self.ends()
        homes = {partition_of(pool, self.config.partitions) for pool in pools}

        async def covered() -> bool:
            await tick()
            self.assert_alive()
            markers = await self.markers()
            return all(
                home in markers and markers[home].next_offset >= ends[home] for home in homes
            )

        await until(covered, "a checkpoint of everything", pause_s=0.4)

    async def expected(self, upto: dict[str, int]) -> dict[str, tuple[int, str]]:
        """The chain over the first `upto[pool]` readable records of each pool, from the log."""
        records: dict[str, list[Any]] = defaultdict(list)
        for record in await self.read(self.topics.usage):
            try:
                value = decode(record.value)
            except BadRecord:
                continue
            if not isinstance(value, USAGE_KINDS):
                continue
            home = partition_of(value.pool, self.config.partitions)
            broken = getattr(value, "gateway", "") == BREAKS_THE_CORE
            if record.key == value.pool.encode() and record.partition == home and not broken:
                records[value.pool].append(value)
        return {pool: chain_of(records[pool][:count]) for pool, count in upto.items()}

    async def assert_exact(self, pools: Sequence[str]) -> None:
        """Each pool folded its records once, in order, up to where its rows stand."""
        states = await self.states()
        assert sorted(states) == sorted(pools)
        expected = await self.expected({pool: state.count for pool, state in states.items()})
        assert {pool: (state.count, state.chain) for pool, state in states.items()} == expected

    async def assert_decisions_have_one_content(self) -> None:
        """S6: what is published again is the same, byte for byte."""
        for topic in (self.topics.journal, self.topics.dead_letter):
            contents: dict[Any, set[bytes]] = defaultdict(set)
            for record in await self.read(topic):
                entry = decode(record.value)
                known = entry.id if isinstance(entry, JournalEntry) else entry.offset
                contents[known].add(record.value)
            differing = {known for known, values in contents.items() if len(values) > 1}
            assert differing == set()

    async def ends(self) -> dict[int, int]:
        """Where each partition of the usage topic ends."""
        consumer = AIOKafkaConsumer(bootstrap_servers=self.brokers)
        await consumer.start()
        places = [
            TopicPartition(self.topics.usage, number) for number in range(self.config.partitions)
        ]
        ends = await consumer.end_offsets(places)
        await consumer.stop()
        return {place.partition: end for place, end in ends.items()}

    async def committed(self) -> dict[int, int]:
        """The control workers' committed offsets in the usage topic; none for what has none."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self.brokers)
        await admin.start()
        found = await admin.list_consumer_group_offsets(application_id(self.config))
        await admin.close()
        return {
            place.partition: at.offset
            for place, at in found.items()
            if place.topic == self.topics.usage
        }


@asynccontextmanager
async def deployed(
    brokers: str,
    prefix: str,
    data: Path,
    *workers: str,
    partitions: int = 4,
    worker: Sequence[str] = CHAINED_WORKER,
) -> AsyncIterator[Deployment]:
    """A deployment with these workers, from its start to its end."""
    deployment = Deployment(brokers, prefix, data, partitions, worker)
    try:
        await deployment.start(*workers)
        yield deployment
    finally:
        await deployment.stop()
