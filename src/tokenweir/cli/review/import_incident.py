"""`tokenweir import`: an exported incident into topics of its own."""

import asyncio
from bisect import bisect_left
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaConnectionError, KafkaError

from tokenweir.cli.log import quiet, silent
from tokenweir.cli.settings import Settings
from tokenweir.cli.show import show_json
from tokenweir.errors import BadInput, Unavailable
from tokenweir.records.journal import Break, DeadLetter, JournalEntry, SnapshotChunk
from tokenweir.review.container import FileLog
from tokenweir.review.kafka import READER
from tokenweir.snapshots import break_entry
from tokenweir.topics import Topics, pool_key
from tokenweir.wire import decode_as, encode

# The copies keep the times of the originals, and are there until somebody deletes the topics.
SETTINGS = {
    "message.timestamp.type": "CreateTime",
    "message.timestamp.after.max.ms": str(2**63 - 1),  # whatever clock the originals had
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "max.message.bytes": str(4 << 20),
}
MOST_SENT = 1_000  # records on their way at once
WHY = "imported from a file: what was before is not in it"


def run(settings: Settings, path: Path, prefix: str, output: str) -> None:
    """Create the topics and fill them; raises `BadInput` when one of them is there already."""
    if not prefix:
        raise BadInput("--prefix is empty: that is where a deployment's own topics are")
    quiet()
    file, brokers = FileLog(path), settings.need_brokers()
    try:
        asyncio.run(_import(brokers, Topics(prefix), file))
    except KafkaConnectionError as error:
        raise Unavailable(silent(brokers)) from error
    except KafkaError as error:
        raise Unavailable(f"Kafka at {brokers} did not take it: {error}") from error
    if output == "json":
        show_json({"pool": file.pool, "prefix": prefix, "messages": file.incident.messages})
    else:
        print(f"pool {file.pool}: {file.incident.messages} messages; look at them with")
        print(f"  TOKENWEIR_TOPIC_PREFIX={prefix} tokenweir replay --pool {file.pool}")


async def _import(brokers: str, topics: Topics, file: FileLog) -> None:
    await _create(brokers, topics, file.partitions)
    async with _producer(brokers) as producer:
        copy = Copy(producer, topics, file)
        await copy.messages()
        await copy.letters()
        await copy.journal()
        await copy.settle()


async def _create(brokers: str, topics: Topics, partitions: int) -> None:
    names = (topics.usage, topics.journal, topics.dead_letter, topics.control)
    admin = AIOKafkaAdminClient(bootstrap_servers=brokers)
    try:
        await admin.start()
        there = sorted(name for name in await admin.list_topics() if name.startswith(topics.prefix))
        if there:
            raise BadInput(
                f"--prefix {topics.prefix}: {there[0]} is there already; an incident goes into new "
                "topics only: choose a prefix that no topic has"
            )
        new = [NewTopic(name, partitions, 1, topic_configs=SETTINGS) for name in names]
        await admin.create_topics(new)
    finally:
        await admin.close()


@asynccontextmanager
async def _producer(brokers: str) -> AsyncIterator[AIOKafkaProducer]:
    producer = AIOKafkaProducer(
        bootstrap_servers=brokers,
        acks="all",
        enable_idempotence=True,
        max_request_size=64 << 20,
        compression_type="gzip",
        linger_ms=20,
    )
    try:
        await producer.start()
        yield producer
    finally:
        await producer.stop()


class Copy:
    """One file into new topics. Offsets begin at 0 there, so entries that name one change."""

    def __init__(self, producer: AIOKafkaProducer, topics: Topics, file: FileLog) -> None:
        self.producer, self.topics, self.file = producer, topics, file
        self.offsets: list[int] = []  # of the originals, by offset of the copy
        self.sent: list[asyncio.Future[Any]] = []

    async def messages(self) -> None:
        """Copy the usage log."""
        async for message in self.file.messages(self.file.incident.first):
            self.offsets.append(message.offset)
            await self._send(self.topics.usage, message.value, message.append_ms)

    async def letters(self) -> None:
        """Copy what was told of messages that could not be used."""
        for letter in (await self.file.letters()).values():
            place = (self.topics.usage, self.file.partition, self._new(letter.offset))
            copy = DeadLetter(
                *place, letter.append_ms, pool_key(self.file.pool), None, letter.reason, READER
            )
            await self._send(self.topics.dead_letter, encode(copy), letter.append_ms)

    async def journal(self) -> None:
        """Copy the journal, behind a break: the log's start is not the pool's."""
        is_first = not self.file.incident.whole
        async for entry in self.file.journal(self.file.incident.journal_start):
            decoded = decode_as(JournalEntry, entry.value)
            if is_first:
                is_first = False
                await self._break(decoded)
            await self._send(self.topics.journal, self._moved(decoded, entry.value), decoded.at_ms)

    async def _break(self, first: JournalEntry) -> None:
        assert isinstance(first.body, SnapshotChunk)  # the file begins with its snapshot
        arithmetic = first.body.arithmetic
        entry = break_entry(self.file.pool, first.at_ms, WHY, 0, arithmetic)
        await self._send(self.topics.journal, encode(entry), first.at_ms)

    def _moved(self, entry: JournalEntry, value: bytes) -> bytes:
        if not isinstance(entry.body, (SnapshotChunk, Break)):
            return value
        body = replace(entry.body, next_offset=self._new(entry.body.next_offset))
        return encode(replace(entry, body=body))

    def _new(self, offset: int) -> int:
        return bisect_left(self.offsets, offset)

    async def _send(self, topic: str, value: bytes | None, time_ms: int) -> None:
        promise = await self.producer.send(
            topic,
            value,
            key=pool_key(self.file.pool),
            partition=self.file.partition,
            timestamp_ms=time_ms,
        )
        self.sent.append(promise)
        if len(self.sent) >= MOST_SENT:
            await self.settle()

    async def settle(self) -> None:
        """Return when the broker has all of it; raises Kafka's error if it does not take it."""
        promises, self.sent = self.sent, []
        await asyncio.gather(*promises)
