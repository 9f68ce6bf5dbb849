"""Each message of a topic into the state of its partition, exactly once (S1-S3, S5, S6).

The agent hands every event here. All state in memory belongs to one generation of the consumer
group; when that changes it is thrown away, and loaded again from the tables.
"""

import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import faust
from aiokafka import TopicPartition

from streams.checkpoint import write
from streams.log import Log
from streams.partition import Unfoldable
from streams.publish import Publisher
from streams.reading import judge
from streams.source import Folded, Source
from streams.tables import PartitionTables, Tables
from streams.work import Work
from tokenweir.usage_log import Message

log = logging.getLogger(__name__)
S = TypeVar("S", bound=Folded)
MOST_HELD = 5_000  # messages that wait for a checkpoint, for a log that is read faster than written


class Superseded(Exception):
    """The consumer group has a new generation: the state in memory may not be ours any more."""


@dataclass(slots=True)
class Keeping(Generic[S]):
    """A partition while it is ours."""

    state: S
    store: PartitionTables
    generation: int
    held: list[Any] = field(default_factory=list)  # messages to acknowledge with the checkpoint


class Folding(Generic[S]):
    """The partitions that this worker folds."""

    def __init__(
        self,
        source: Source[S],
        app: faust.App,
        tables: Tables,
        publisher: Publisher,
        reader: Log,
    ) -> None:
        self.source = source
        self.app, self.tables = app, tables
        self.publisher, self.reader = publisher, reader
        self.kept: dict[int, Keeping[S]] = {}
        self.unfoldable: dict[int, dict[int, str]] = {}  # partition: offset: reason
        self.work = Work()
        self._finished: dict[int, int | None] = {}  # partition: all below it is folded

    def assigned(self, partitions: Iterable[int]) -> None:
        """These partitions are ours from now on."""
        self._finished = dict.fromkeys(partitions)

    def positions(self) -> dict[TopicPartition, int | None]:
        """Of each partition that is ours, the offset below which all is folded and handed to the
        producer; None before its first message. May be called from another thread.
        """
        topic, finished = self.source.topic, [*self._finished.items()]
        return {TopicPartition(topic, partition): offset for partition, offset in finished}

    async def take(self, event: Any) -> None:
        """Fold the event's message, if it is its turn; what is missing before it comes first.

        Raises what the broker raises when it stays away; the process must end then.
        """
        message = event.message
        if message.generation_id != self.app.consumer_generation_id:
            return
        try:
            while not await self._folded(message):
                pass
        except Superseded:
            self.kept.pop(message.partition, None)
        except BaseException:  # Faust cancels agents too: half a step must not be built upon
            self.kept.pop(message.partition, None)
            raise

    async def _folded(self, message: Any) -> bool:
        """Whether the message is done; False when the state must be loaded again first."""
        keeping = await self._keeping(message)
        try:
            await self._fold(keeping, message)
        except Unfoldable as error:
            log.exception("partition %d: the core failed at %s", message.partition, error)
            self.unfoldable.setdefault(message.partition, {})[error.offset] = error.reason
            del self.kept[message.partition]
            return False
        return True

    async def _keeping(self, message: Any) -> Keeping[S]:
        keeping = self.kept.get(message.partition)
        if keeping is None or keeping.generation != message.generation_id:
            self._reached(message.partition, message.offset)  # at most: it waits for the state
            keeping = await self._load(message.partition, message.generation_id)
            self.kept[message.partition] = keeping
            self._reached(message.partition, keeping.state.next_offset)
        return keeping

    async def _fold(self, keeping: Keeping[S], message: Any) -> None:
        state = keeping.state
        verdict = judge(state.next_offset, message.offset, message.generation_id, self._now())
        if verdict == "ahead":
            await self._catch_up(keeping, message.offset)
        elif verdict == "repeat":
            message.ack(self.app.consumer)
            return
        elif verdict == "stale":
            raise Superseded
        append_ms = round(message.timestamp * 1000)
        await self._step(keeping, Message(message.offset, append_ms, message.key, message.value))
        message.value = None  # held for its acknowledgement only
        keeping.held.append(message)
        if state.is_checkpoint_due() or len(keeping.held) % MOST_HELD == 0:
            await self._checkpoint(keeping)

    async def _step(self, keeping: Keeping[S], message: Message) -> None:
        out = keeping.state.take(message)
        self.work.note(out, keeping.state.place.topics.control)
        if out:
            await self.publisher.send(keeping.state.place.partition, out)
        self._reached(keeping.state.place.partition, keeping.state.next_offset)

    async def _load(self, partition: int, generation: int) -> Keeping[S]:
        store = PartitionTables(self.app, self.tables, partition)
        unfoldable = self.unfoldable.get(partition, {})
        state, why_break = await self.source.load(partition, store, self.reader, unfoldable)
        self._check(generation)
        log.info("partition %d: goes on at offset %d", partition, state.next_offset)
        keeping = Keeping(state, store, generation)
        if why_break:
            await self._break(keeping, why_break)
        return keeping

    async def _catch_up(self, keeping: Keeping[S], stop: int) -> None:
        """Fold what lies before `stop` and was not delivered (S1)."""
        state, place = keeping.state, keeping.state.place
        topic = self.source.topic
        first, _ = await self.reader.bounds(topic, place.partition)
        if first > state.next_offset:
            why = f"offsets {state.next_offset} to {first - 1} are gone from the log"
            state.next_offset = min(first, stop)
            await self._break(keeping, dict.fromkeys(state.pools, why))
        async for message in self.reader.read(topic, place.partition, state.next_offset, stop):
            self._check(keeping.generation)
            await self._step(keeping, message)
            if state.is_checkpoint_due():
                await self._checkpoint(keeping)
        self._check(keeping.generation)
        state.next_offset = stop  # a hole without records, such as a transaction's end

    async def _break(self, keeping: Keeping[S], whys: Mapping[str, str]) -> None:
        """Tell that replay must not cross this place, and let the rows stand on this side (S5)."""
        for why in sorted(set(whys.values())):
            log.warning("partition %d: break: %s", keeping.state.place.partition, why)
        await self.publisher.send(keeping.state.place.partition, keeping.state.breaks(whys))
        await self._checkpoint(keeping)

    async def _checkpoint(self, keeping: Keeping[S]) -> None:
        """Rows, then the marker, then the acknowledgements; each awaited (S2)."""
        state = keeping.state
        if not state.is_even():
            return
        start_s = time.monotonic()
        await self.publisher.settle()
        self._check(keeping.generation)
        rows = state.changed_rows()
        marker = state.marker(rows)
        await write(keeping.store, rows, state.rows_before(), marker)
        self._check(keeping.generation)
        state.checkpointed(marker)
        for message in keeping.held:
            message.ack(self.app.consumer)
        keeping.held.clear()
        self.work.checkpointed(time.monotonic() - start_s)

    def _reached(self, partition: int, offset: int) -> None:
        if partition in self._finished:  # else it was lost in the meantime
            self._finished[partition] = offset

    def _check(self, generation: int) -> None:
        if generation != self._now():
            raise Superseded

    def _now(self) -> int:
        generation: int = self.app.consumer_generation_id
        return generation
