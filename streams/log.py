"""Ranges of a partition, read with a plain consumer beside the group's."""

from collections.abc import AsyncIterator
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from tokenweir.usage_log import Message

WAIT_MS = 1_000
FETCH_BYTES = 8 << 20


class Log:
    """Reads what is in the log, whatever the consumer group thinks of it.

    One range at a time: the group's agent is one coroutine.
    """

    def __init__(self, brokers: str) -> None:
        self.brokers = brokers
        self._consumer: Any = None

    async def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """The first offset that is still there, and the one after the last."""
        place = TopicPartition(topic, partition)
        consumer = await self._on(place)
        first = await consumer.beginning_offsets([place])
        end = await consumer.end_offsets([place])
        return first[place], end[place]

    async def read(
        self, topic: str, partition: int, start: int, stop: int
    ) -> AsyncIterator[Message]:
        """The messages from `start` up to, not including, `stop`; holes are left out.

        `start` must be there still, and `stop` not beyond the end: see `bounds`.
        """
        if start >= stop:
            return
        place = TopicPartition(topic, partition)
        consumer = await self._on(place)
        consumer.seek(place, start)
        while await consumer.position(place) < stop:
            found = await consumer.getmany(place, timeout_ms=WAIT_MS)
            for record in found.get(place, ()):
                if record.offset >= stop:
                    return
                yield Message(record.offset, record.timestamp, record.key, record.value)

    async def close(self) -> None:
        """Leave the broker."""
        if self._consumer is not None:
            await self._consumer.stop()

    async def _on(self, place: TopicPartition) -> Any:
        if self._consumer is None:
            self._consumer = AIOKafkaConsumer(
                bootstrap_servers=self.brokers,
                enable_auto_commit=False,
                auto_offset_reset="none",
                max_partition_fetch_bytes=FETCH_BYTES,
                fetch_max_wait_ms=50,
            )
            await self._consumer.start()
        if self._consumer.assignment() != {place}:
            self._consumer.assign([place])
        return self._consumer
