"""A pool's log and journal in Kafka, read beside everybody else: in no group, with no producer."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from tokenweir.errors import BadInput, BadRecord, Unavailable
from tokenweir.records.journal import DeadLetter
from tokenweir.review.log import Bounds, Entry, Letter
from tokenweir.topics import Topics, partition_of, pool_key
from tokenweir.usage_log import Message
from tokenweir.wire import decode_as

READER = "control"  # whose dead letters matter: what it could not use, it did not fold
FETCH_BYTES = 8 << 20
WAIT_MS = 1_000
MOST_EMPTY = 60  # answers in a row
FIRST_WINDOW = 2_000  # records of the journal, read backwards; each next window has four times more


class KafkaLog:
    """One pool's part of a deployment's topics.

    Each iterator has a consumer of its own, which belongs to no group and commits nothing.
    """

    def __init__(self, brokers: str, topics: Topics, pool: str, partitions: int) -> None:
        self.brokers, self.topics = brokers, topics
        self.pool, self.partitions = pool, partitions
        self.partition = partition_of(pool, partitions)

    @classmethod
    async def open(cls, brokers: str, topics: Topics, pool: str) -> "KafkaLog":
        """Raises `BadInput` for what is no pool's name, `Unavailable` where there are no topics."""
        if not pool or "/" in pool:
            raise BadInput(f"pool is {pool!r}: allowed is a name without a slash")
        admin = AIOKafkaAdminClient(bootstrap_servers=brokers)
        try:
            await admin.start()
            # Asking for a topic by its name could create it.
            missing = {topics.usage, topics.journal, topics.dead_letter} - set(
                await admin.list_topics()
            )
            if missing:
                raise Unavailable(
                    f"topic {min(missing)} does not exist: start the control plane, which creates "
                    "it (`python -m streams up`)"
                )
            (described,) = await admin.describe_topics([topics.usage])
            return cls(brokers, topics, pool, len(described["partitions"]))
        finally:
            await admin.close()

    async def bounds(self) -> Bounds:
        """What there is of the usage log; whole while nothing of the partition was deleted."""
        first, end = await self._ends(self.topics.usage)
        return Bounds(first, end, first == 0)

    async def messages(self, start: int) -> AsyncGenerator[Message, None]:
        """The pool's messages."""
        key = pool_key(self.pool)
        async with aclosing(self._read(self.topics.usage, start, None)) as records:
            async for record in records:
                if record.key == key:
                    yield Message(record.offset, record.timestamp, key, record.value)

    async def time_at(self, offset: int) -> int | None:
        """The append time there."""
        first, _ = await self._ends(self.topics.usage)
        async with aclosing(self.messages(max(first, offset))) as messages:
            async for message in messages:
                return message.append_ms
        return None

    async def journal_start(self) -> int:
        """The journal's first offset."""
        return (await self._ends(self.topics.journal))[0]

    async def journal(self, position: int) -> AsyncGenerator[Entry, None]:
        """The pool's entries; positions are offsets of the journal's partition."""
        async with aclosing(self._entries(position, None)) as entries:
            async for entry in entries:
                yield entry

    async def journal_before(self, time_ms: int | None) -> AsyncGenerator[Sequence[Entry], None]:
        """Windows of the pool's entries, the newest first."""
        first, end = await self._ends(self.topics.journal, time_ms)
        size = FIRST_WINDOW
        while end > first:
            begin = max(first, end - size)
            yield [entry async for entry in self._entries(begin, end)]
            end, size = begin, size * 4

    async def letters(self) -> Mapping[int, Letter]:
        """What the control plane's dead letters say of this partition."""
        found = {}
        first, _ = await self._ends(self.topics.dead_letter)
        async with aclosing(self._read(self.topics.dead_letter, first, None)) as records:
            async for record in records:
                letter = _letter(record.value)
                if letter and self._is_ours(letter):
                    found[letter.offset] = Letter(letter.offset, letter.timestamp_ms, letter.reason)
        return found

    def _is_ours(self, letter: DeadLetter) -> bool:
        ours = (self.topics.usage, self.partition, pool_key(self.pool))
        return (letter.topic, letter.partition, letter.key) == ours

    async def _entries(self, start: int, stop: int | None) -> AsyncGenerator[Entry, None]:
        key = pool_key(self.pool)
        async with aclosing(self._read(self.topics.journal, start, stop)) as records:
            async for record in records:
                if record.key == key and record.value is not None:
                    yield Entry(record.offset, record.value)

    async def _read(self, topic: str, start: int, stop: int | None) -> AsyncGenerator[Any, None]:
        """The records from `start` to before `stop`, or to the present end."""
        place, consumer = TopicPartition(topic, self.partition), _consumer(self.brokers)
        try:
            await consumer.start()
            consumer.assign([place])
            end = (await consumer.end_offsets([place]))[place] if stop is None else stop
            if start >= end:
                return
            consumer.seek(place, start)
            at, empty = start, 0
            while at < end:
                for record in (await consumer.getmany(place, timeout_ms=WAIT_MS)).get(place, ()):
                    if record.offset < end:
                        yield record
                before, at = at, await consumer.position(place)
                empty = empty + 1 if at == before else 0
                if empty > MOST_EMPTY:
                    raise Unavailable(
                        f"Kafka at {self.brokers} has given nothing of {topic} for "
                        f"{empty * WAIT_MS // 1000} s: offset {at} of {end}; see whether it runs"
                    )
        finally:
            await consumer.stop()

    async def _ends(self, topic: str, time_ms: int | None = None) -> tuple[int, int]:
        """The first offset that is there, and the one behind the last, or behind a time."""
        place, consumer = TopicPartition(topic, self.partition), _consumer(self.brokers)
        try:
            await consumer.start()
            consumer.assign([place])
            first = (await consumer.beginning_offsets([place]))[place]
            end = (await consumer.end_offsets([place]))[place]
            if time_ms is not None:
                at = (await consumer.offsets_for_times({place: max(time_ms, 0)}))[place]
                end = end if at is None else at.offset
            return first, end
        finally:
            await consumer.stop()


def _consumer(brokers: str) -> Any:
    return AIOKafkaConsumer(
        bootstrap_servers=brokers,
        enable_auto_commit=False,
        auto_offset_reset="none",
        max_partition_fetch_bytes=FETCH_BYTES,
        fetch_max_wait_ms=50,
    )


def _letter(value: bytes | None) -> DeadLetter | None:
    try:
        letter = decode_as(DeadLetter, value)
    except BadRecord:
        return None
    return letter if letter.reader == READER else None
