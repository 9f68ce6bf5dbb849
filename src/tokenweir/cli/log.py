"""Read Kafka's topics from the command line: to their present end, backwards, or as they grow."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from aiokafka.structs import ConsumerRecord

from tokenweir.errors import Unavailable

ANSWER_S = 10.0  # a broker that needs longer is down
FIRST_WINDOW = 500  # records; the next window backwards is four times as large, and so on
LARGEST_WINDOW = 32_000  # records, which stand in memory


class Log:
    """A consumer that belongs to no group, and so disturbs nobody; and what the brokers know."""

    def __init__(self, consumer: AIOKafkaConsumer, admin: AIOKafkaAdminClient) -> None:
        self._consumer = consumer
        self.admin = admin

    async def partitions(self, topic: str) -> list[TopicPartition]:
        """A topic's partitions in order; raises `Unavailable` when there is no such topic."""
        # Asking for a topic by its name could create it.
        if topic not in await self.admin.list_topics():
            raise Unavailable(
                f"topic {topic} does not exist: start the control plane, which creates it "
                "(`python -m streams up`)"
            )
        (described,) = await self.admin.describe_topics([topic])
        numbers = sorted(part["partition"] for part in described["partitions"])
        return [TopicPartition(topic, number) for number in numbers]

    async def starts(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each partition that is still kept."""
        return dict(await self._consumer.beginning_offsets(partitions))

    async def ends(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset that each partition's next record will have."""
        return dict(await self._consumer.end_offsets(partitions))

    async def since(
        self, partitions: Sequence[TopicPartition], at_ms: int
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition with an append time from `at_ms`; else its end."""
        found = await self._consumer.offsets_for_times(dict.fromkeys(partitions, at_ms))
        ends = await self.ends(partitions)
        return {part: ends[part] if at is None else at.offset for part, at in found.items()}

    async def between(
        self, partition: TopicPartition, start: int, end: int
    ) -> AsyncIterator[ConsumerRecord]:
        """The records from offset `start` to before `end`; compaction may have left holes."""
        self._consumer.assign([partition])
        self._consumer.seek(partition, start)
        while await self._consumer.position(partition) < end:
            batch = await self._consumer.getmany(partition, timeout_ms=1000)
            for record in batch.get(partition, ()):
                if record.offset < end:
                    yield record

    async def whole(self, topic: str) -> AsyncIterator[ConsumerRecord]:
        """Everything that a topic holds now, one partition after the other."""
        partitions = await self.partitions(topic)
        starts, ends = await self.starts(partitions), await self.ends(partitions)
        for partition in partitions:
            async for record in self.between(partition, starts[partition], ends[partition]):
                yield record

    async def backwards(
        self, partition: TopicPartition, end: int
    ) -> AsyncIterator[list[ConsumerRecord]]:
        """A partition before offset `end` in windows, the newest first.

        Inside a window records stand in the order of the log.
        """
        start = (await self.starts([partition]))[partition]
        size = FIRST_WINDOW
        while end > start:
            begin = max(start, end - size)
            yield [record async for record in self.between(partition, begin, end)]
            end, size = begin, min(size * 4, LARGEST_WINDOW)

    async def follow(
        self, starts: Mapping[TopicPartition, int]
    ) -> AsyncGenerator[ConsumerRecord, None]:
        """Records from these offsets on, as they come; it never ends by itself."""
        self._consumer.assign(list(starts))
        for partition, offset in starts.items():
            self._consumer.seek(partition, offset)
        async for record in self._consumer:
            yield record


@asynccontextmanager
async def open_log(brokers: str) -> AsyncIterator[Log]:
    """A log of these brokers; raises `Unavailable` when none of them answers."""
    quiet()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=brokers, enable_auto_commit=False, request_timeout_ms=10_000
    )
    admin = AIOKafkaAdminClient(bootstrap_servers=brokers, request_timeout_ms=10_000)
    try:
        for client in (consumer, admin):
            async with asyncio.timeout(ANSWER_S):
                await client.start()
        yield Log(consumer, admin)
    except BrokenPipeError:  # the reader of our output has gone, not a broker
        raise
    except (KafkaError, OSError, TimeoutError) as error:
        raise Unavailable(silent(brokers)) from error
    finally:
        await consumer.stop()
        await admin.close()


def silent(brokers: str) -> str:
    """What to do about brokers that do not answer."""
    return (
        f"Kafka at {brokers} does not answer: start it (`python -m streams up`), "
        "or name another with --brokers"
    )


def quiet() -> None:
    """Our own errors say it; the client's log would say it again."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
