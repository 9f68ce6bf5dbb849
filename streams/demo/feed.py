"""The decisions of one pool, from the journal, as they are made."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

from aiokafka import AIOKafkaConsumer, TopicPartition

from tokenweir.errors import BadRecord
from tokenweir.records.journal import DecisionEntry, JournalEntry
from tokenweir.topics import Topics, partition_of
from tokenweir.wire import decode_as


class Feed:
    """The newest decision of a pool and what was refused since the feed began."""

    def __init__(self, pool: str) -> None:
        self.pool = pool
        self.entry: DecisionEntry | None = None
        self.refused: Counter[str] = Counter()

    async def follow(self, brokers: str, topics: Topics, partitions: int) -> None:
        """Read the journal from now on; it ends by being cancelled."""
        partition = TopicPartition(topics.journal, partition_of(self.pool, partitions))
        consumer = AIOKafkaConsumer(bootstrap_servers=brokers, auto_offset_reset="latest")
        await consumer.start()
        try:
            consumer.assign([partition])
            async for entry in _entries(consumer):
                self.take(entry)
        finally:
            await consumer.stop()

    def take(self, entry: JournalEntry) -> None:
        """Take one entry; those of other pools, and repeats after a crash (S6), do not count."""
        newest = self.entry.decision.at_ms if self.entry else 0
        if entry.pool != self.pool or not isinstance(entry.body, DecisionEntry):
            return
        if entry.body.decision.at_ms > newest:
            self.entry = entry.body
            tenants = entry.body.tenants
            self.refused.update(dict(zip(tenants.tenant, tenants.refused, strict=True)))


async def _entries(consumer: AIOKafkaConsumer) -> AsyncIterator[JournalEntry]:
    async for record in consumer:
        try:
            yield decode_as(JournalEntry, record.value)
        except BadRecord:
            await asyncio.sleep(0)  # the history tells of it; the view goes on
