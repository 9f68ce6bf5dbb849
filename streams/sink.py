"""From Kafka's partitions to the tables of the history.

Crash-only: where reading goes on is what the tables hold, at a start, after a rebalance and after
an insert whose fate is unknown alike (H1, H2). The group's committed offsets only show the lag.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from time import monotonic
from typing import Any

from aiokafka import ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError
from clickhouse_connect.driver.client import Client

from tokenweir.errors import BadInput, Unavailable
from tokenweir.history.insert import insert
from tokenweir.history.lane import Batch, Lane
from tokenweir.history.rows import Place, Record
from tokenweir.history.store import checksums, open_journal, open_usage
from tokenweir.topics import Topics
from tokenweir.wire import encode

log = logging.getLogger("tokenweir.history")

PATIENCE_S = 0.5  # the longest that a record waits for its insert
POLL_MS = 100
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 5.0  # between tries while ClickHouse does not answer
SILENT_S = 60.0  # without an insert that was due: worth a line


class Sink(ConsumerRebalanceListener):  # type: ignore[misc]
    """The lanes of the partitions that this process has; closed ones wait to be opened."""

    def __init__(self, client: Client, consumer: Any, producer: Any, topics: Topics) -> None:
        self.client, self.consumer, self.producer = client, consumer, producer
        self.topics = topics
        self.lanes: dict[TopicPartition, Lane | None] = {}
        self.turn = asyncio.Lock()  # the lanes change hands between two turns only
        self.pause_s = FIRST_PAUSE_S
        self.again_s = 0.0  # monotonic: not before this is ClickHouse asked again
        self.good_s = monotonic()  # when it last did what it was asked

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Write what is there, as long as the partitions are ours."""
        async with self.turn:
            await self._guarded(self._flush_all)
            self.lanes.clear()

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Read nothing until the tables have said where to go on."""
        self.lanes = dict.fromkeys(assigned)
        for place in assigned:
            self.consumer.seek(place, 0)
        self.consumer.pause(*assigned)

    async def step(self) -> None:
        """Open what is closed, read a little, insert what is due."""
        async with self.turn:
            if monotonic() >= self.again_s:
                await self._guarded(self._open_all)
        found = await self.consumer.getmany(timeout_ms=POLL_MS)
        async with self.turn:
            for place, records in found.items():
                self._receive(place, records)
            await self._guarded(self._flush_due)
        self._watch()

    async def finish(self) -> None:
        """Insert what has been read."""
        async with self.turn:
            await self._guarded(self._flush_all)

    async def refind(self, lost: Collection[TopicPartition]) -> None:
        """The log begins behind where the tables end: go on with what is left of it."""
        first = await self.consumer.beginning_offsets(lost)
        for place in lost:
            position = await self.consumer.position(place)
            if position > first[place]:
                raise BadInput(_of_another_log(place, position))
            log.error("%s: offsets %d to %d are gone", place, position, first[place] - 1)
            self.consumer.seek(place, first[place])

    async def _open_all(self) -> None:
        for place in [place for place, lane in self.lanes.items() if lane is None]:
            lane = await asyncio.to_thread(self._opened, place)
            end = (await self.consumer.end_offsets([place]))[place]
            if lane.begins > end:
                raise BadInput(_of_another_log(place, lane.begins))
            self.lanes[place] = lane
            self.consumer.seek(place, lane.begins)
            self.consumer.resume(place)
            self._answered()

    def _opened(self, place: TopicPartition) -> Lane:
        where = Place(place.topic, place.partition)
        if place.topic == self.topics.journal:
            return open_journal(self.client, where)
        partitions = len(self.consumer.partitions_for_topic(place.topic))
        return open_usage(self.client, where, partitions)

    def _receive(self, place: TopicPartition, records: list[Any]) -> None:
        lane = self.lanes.get(place)
        if lane is not None:
            read = [
                Record(lane.place, found.offset, found.timestamp, found.key, found.value)
                for found in records
            ]
            lane.receive(read, monotonic())

    async def _flush_due(self) -> None:
        if monotonic() < self.again_s:
            return
        for place, lane in self.lanes.items():
            if lane is not None and lane.due(monotonic(), PATIENCE_S):
                await self._flush(place, lane)

    async def _flush_all(self) -> None:
        for place, lane in self.lanes.items():
            if lane is not None and lane.waiting:
                await self._flush(place, lane)

    async def _flush(self, place: TopicPartition, lane: Lane) -> None:
        """Insert all that waits. Until that is done the lane is closed: if it fails, what is in
        the tables is unknown, and they are asked again.
        """
        self.lanes[place] = None
        while lane.waiting:
            # The broker refuses the commit of a process that has lost the partition unawares.
            await self.consumer.commit({place: lane.waiting[0].offset})
            batch = await asyncio.to_thread(lane.next_batch, self._ask)
            await self._send(batch)
            await asyncio.to_thread(self._insert, lane.place, batch)
            after = batch.next_offset
        self.lanes[place] = lane
        self._answered()
        await self.consumer.commit({place: after})

    def _ask(self, entries: Any) -> Any:
        return checksums(self.client, entries)

    def _insert(self, place: Place, batch: Batch) -> None:
        for block in batch.blocks:
            insert(self.client, place, block)

    async def _send(self, batch: Batch) -> None:
        for letter in batch.letters:
            await self.producer.send_and_wait(
                self.topics.dead_letter, encode(letter), key=letter.key
            )

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do it; if ClickHouse or Kafka cannot, close all lanes and try again later: what they
        hold is read again, and nothing piles up meanwhile.
        """
        try:
            await work()
        except (Unavailable, KafkaError) as error:
            self.lanes = dict.fromkeys(self.lanes)
            self.consumer.pause(*self.consumer.assignment() & self.lanes.keys())
            if self.pause_s == FIRST_PAUSE_S:
                log.warning("reading rests: %s", error)
            self.again_s = monotonic() + self.pause_s
            self.pause_s = min(2 * self.pause_s, LONGEST_PAUSE_S)

    def _answered(self) -> None:
        self.good_s = monotonic()
        if self.pause_s != FIRST_PAUSE_S:
            log.warning("reading goes on")
            self.pause_s = FIRST_PAUSE_S

    def _watch(self) -> None:
        if None not in self.lanes.values() and not any(
            lane.waiting for lane in self.lanes.values() if lane
        ):
            self.good_s = monotonic()
        elif monotonic() - self.good_s >= SILENT_S:
            log.error("nothing could be inserted for %d s", SILENT_S)
            self.good_s = monotonic()


def _of_another_log(place: TopicPartition, begins: int) -> str:
    return (
        f"{place.topic}/{place.partition} ends before offset {begins}, where the tables go on:"
        " they are of another log. Name another database in TOKENWEIR_CLICKHOUSE"
        " (http://host:port/database), or set TOKENWEIR_TOPIC_PREFIX"
    )
