"""From Kafka's partitions to the tables of the history.

Crash-only: where reading goes on is what the tables hold, at a start, after a rebalance and after
an insert whose fate is unknown alike (H1, H2). The group's committed offsets only show the lag.
Each partition goes its own way: where an insert hangs or fails, the others go on.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, TypeVar

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
T = TypeVar("T")

PATIENCE_S = 0.5  # the longest that a record waits for its insert
POLL_S = 0.05
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 5.0  # between tries while ClickHouse does not answer
SILENT_S = 60.0  # without an insert that was due: worth a line
# Partitions that ask ClickHouse at once, in the order in which they came: what hangs fails in its
# time and then has to rest, so that the others have their turn. Each holds a batch, about 20 MB.
AT_ONCE = 8


@dataclass(slots=True)
class Way:
    """One partition's way into the tables. It is closed until they have said where to go on."""

    lane: Lane | None = None
    position: int = 0  # what is below it is in the tables
    pause_s: float = FIRST_PAUSE_S
    again_s: float = 0.0  # monotonic: not before this is ClickHouse asked again
    good_s: float = field(default_factory=monotonic)  # when all was well: an insert, or none due


class Sink(ConsumerRebalanceListener):  # type: ignore[misc]
    """The partitions that this process has, and what is being done for each of them."""

    def __init__(self, client: Client, consumer: Any, producer: Any, topics: Topics) -> None:
        self.client, self.consumer, self.producer = client, consumer, producer
        self.topics = topics
        self.ways: dict[TopicPartition, Way] = {}
        self.works: dict[TopicPartition, asyncio.Task[None]] = {}  # one at most for each
        self.turn = asyncio.Lock()  # partitions change hands between two turns only
        self.threads = ThreadPoolExecutor(AT_ONCE, "clickhouse")

    def positions(self) -> dict[TopicPartition, int | None]:
        """Of each partition, the offset below which all is in the tables, as far as is known."""
        return {place: way.position for place, way in [*self.ways.items()]}

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Write what is there, as long as the partitions are ours."""
        try:
            await self.finish()
        finally:
            self.ways.clear()

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Read nothing until the tables have said where to go on."""
        self.ways = {place: Way() for place in assigned}
        for place in assigned:
            self.consumer.seek(place, 0)
        self.consumer.pause(*assigned)

    async def step(self) -> None:
        """Open what is closed, insert what is due, and read a little meanwhile."""
        async with self.turn:
            self._reap()
            self._start_due(monotonic())
        found = await self._read()
        async with self.turn:
            for place, records in found.items():
                self._receive(place, records)
        self._watch()

    async def finish(self) -> None:
        """Insert what has been read."""
        async with self.turn:
            await self.rest()
            self._reap()
            for place, way in self.ways.items():
                if way.lane is not None and way.lane.waiting:
                    self._start(place, way, self._flush(place, way, way.lane))
            await self.rest()

    async def rest(self) -> None:
        """Wait until nothing is being done."""
        if self.works:
            await asyncio.wait(self.works.values())

    async def leave(self) -> None:
        """Give up what is still being done; only what ClickHouse is being asked goes on."""
        for work in self.works.values():
            work.cancel()
        await asyncio.gather(*self.works.values(), return_exceptions=True)

    async def refind(self, lost: Collection[TopicPartition]) -> None:
        """The log begins behind where the tables end: go on with what is left of it."""
        first = await self.consumer.beginning_offsets(lost)
        for place in lost:
            position = await self.consumer.position(place)
            if position > first[place]:
                raise BadInput(_of_another_log(place, position))
            log.error("%s: offsets %d to %d are gone", place, position, first[place] - 1)
            self.consumer.seek(place, first[place])

    def _reap(self) -> None:
        """Forget what is done; an error that no rest helps against is raised here."""
        for place in [place for place, work in self.works.items() if work.done()]:
            self.works.pop(place).result()

    def _start_due(self, now_s: float) -> None:
        for place, way in self.ways.items():
            if place in self.works or now_s < way.again_s:
                continue
            if way.lane is None:
                self._start(place, way, self._open(place, way))
            elif way.lane.due(now_s, PATIENCE_S):
                self._start(place, way, self._flush(place, way, way.lane))

    def _start(self, place: TopicPartition, way: Way, work: Coroutine[Any, Any, None]) -> None:
        self.works[place] = asyncio.create_task(self._guarded(place, way, work))

    async def _read(self) -> dict[TopicPartition, list[Any]]:
        """Records of partitions for which nothing is being done: the others have enough."""
        idle = self.ways.keys() - self.works.keys()
        if self.ways and not idle:
            await asyncio.wait(
                self.works.values(), timeout=POLL_S, return_when=asyncio.FIRST_COMPLETED
            )
            return {}
        found: dict[TopicPartition, list[Any]] = await self.consumer.getmany(
            *idle, timeout_ms=round(POLL_S * 1000)
        )
        return found

    def _receive(self, place: TopicPartition, records: list[Any]) -> None:
        way = self.ways.get(place)
        if way is not None and way.lane is not None:
            where = way.lane.place
            read = [
                Record(where, found.offset, found.timestamp, found.key, found.value)
                for found in records
            ]
            way.lane.receive(read, monotonic())

    async def _open(self, place: TopicPartition, way: Way) -> None:
        lane = await self._in_thread(self._opened, place)
        end = (await self.consumer.end_offsets([place]))[place]
        if lane.begins > end:
            raise BadInput(_of_another_log(place, lane.begins))
        way.lane, way.position = lane, lane.begins
        self.consumer.seek(place, lane.begins)
        self.consumer.resume(place)

    def _opened(self, place: TopicPartition) -> Lane:
        where = Place(place.topic, place.partition)
        if place.topic == self.topics.journal:
            return open_journal(self.client, where)
        partitions = len(self.consumer.partitions_for_topic(place.topic))
        return open_usage(self.client, where, partitions)

    async def _flush(self, place: TopicPartition, way: Way, lane: Lane) -> None:
        """Insert all that waits. Until that is done the way is closed: if it fails, what is in
        the tables is unknown, and they are asked again.
        """
        way.lane = None
        while lane.waiting:
            # The broker refuses the commit of a process that has lost the partition unawares.
            await self.consumer.commit({place: lane.waiting[0].offset})
            batch = await self._in_thread(lane.next_batch, self._ask)
            await self._send(batch)
            await self._in_thread(self._insert, lane.place, batch)
            way.position = batch.next_offset
        way.lane = lane
        self._answered(place, way)
        await self.consumer.commit({place: way.position})

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

    async def _in_thread(self, work: Callable[..., T], *given: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.threads, work, *given)

    async def _guarded(
        self, place: TopicPartition, way: Way, work: Coroutine[Any, Any, None]
    ) -> None:
        """Do it; if ClickHouse or Kafka cannot, close the way and try again later: what it holds is
        read again, and nothing piles up meanwhile.
        """
        try:
            await work
        except (Unavailable, KafkaError) as error:
            way.lane = None
            self.consumer.pause(*self.consumer.assignment() & {place})
            if way.pause_s == FIRST_PAUSE_S:
                log.warning("%s/%d rests: %s", place.topic, place.partition, error)
            way.again_s = monotonic() + way.pause_s
            way.pause_s = min(2 * way.pause_s, LONGEST_PAUSE_S)

    def _answered(self, place: TopicPartition, way: Way) -> None:
        way.good_s = monotonic()
        if way.pause_s != FIRST_PAUSE_S:
            log.warning("%s/%d goes on", place.topic, place.partition)
            way.pause_s = FIRST_PAUSE_S

    def _watch(self) -> None:
        for place, way in self.ways.items():
            if way.lane is not None and (self.consumer.highwater(place) or 0) <= way.position:
                self._answered(place, way)  # there is nothing to do
            elif monotonic() - way.good_s >= SILENT_S:
                where = (place.topic, place.partition)
                log.error("%s/%d: nothing could be inserted for %d s", *where, SILENT_S)
                way.good_s = monotonic()


def _of_another_log(place: TopicPartition, begins: int) -> str:
    return (
        f"{place.topic}/{place.partition} ends before offset {begins}, where the tables go on:"
        " they are of another log. Name another database in TOKENWEIR_CLICKHOUSE"
        " (http://host:port/database), or set TOKENWEIR_TOPIC_PREFIX"
    )
