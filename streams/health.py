"""Is a worker well? A watchdog looks whether messages wait while none is finished.

It has a thread, an event loop and a connection to Kafka of its own: what hangs does not hold it up,
and where partitions end it is not told by a consumer that may have stopped. Of the worker it reads
a mapping of offsets.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from threading import Thread
from typing import Any

import faust
from aiokafka import TopicPartition

from streams.folding import Folding
from streams.log import Log
from tokenweir.gateway.health import Health

STILL_S = 30.0  # red from then on
LOOK_S = 5.0  # between looks
ANSWER_S = 10.0  # for all that one look asks Kafka

# Of each partition that is the worker's: the offset below which it has finished everything; None
# when it has not had a message yet.
Positions = Mapping[TopicPartition, int | None]


@dataclass(frozen=True, slots=True)
class Seen:
    """A partition as a look found it; times are monotonic."""

    position: int | None
    start: int  # what is at this offset or above has not been finished
    since_s: float  # when it last went on, or had nothing to do
    waits: bool = False  # whether a message is there


async def look(
    positions: Positions, before: Mapping[TopicPartition, Seen], now_s: float, log: Log
) -> dict[TopicPartition, Seen]:
    """The partitions now; Kafka is asked about those only that have not gone on since `before`."""
    return {
        place: await _look_at(place, position, before.get(place), now_s, log)
        for place, position in positions.items()
    }


async def _look_at(
    place: TopicPartition, position: int | None, seen: Seen | None, now_s: float, log: Log
) -> Seen:
    if seen is None or seen.position != position:
        if position is not None:
            return Seen(position, position, now_s)
        _, end = await log.bounds(place.topic, place.partition)
        return Seen(None, end, now_s)
    if seen.waits:
        return seen
    waits = await _waits(place, seen.start, log)
    return replace(seen, waits=True) if waits else replace(seen, since_s=now_s)


async def _waits(place: TopicPartition, start: int, log: Log) -> bool:
    """Whether there is a message: the end of a transaction takes an offset too, but is none."""
    first, end = await log.bounds(place.topic, place.partition)
    messages = log.read(place.topic, place.partition, max(start, first), end)
    return await anext(messages, None) is not None


class Watchdog:
    """Looks at a worker's partitions every few seconds, once it has been started.

    The worker gives it `positions`, which is called from the watchdog's thread, and `told`, what
    the worker itself knows to be wrong: a sentence, or nothing.
    """

    def __init__(
        self,
        brokers: str,
        positions: Callable[[], Positions] = dict,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.brokers, self.positions, self.now_s = brokers, positions, now_s
        self.told = ""
        self.seen: Mapping[TopicPartition, Seen] = {}
        self.looked_s = now_s()
        self.trouble = "no answer yet"

    def start(self) -> None:
        """Look from now on, until the process ends."""
        Thread(target=lambda: asyncio.run(self._run()), name="watchdog", daemon=True).start()

    def health(self) -> Health:
        """The worker's health now, from whatever thread."""
        return Health(tuple(self._problems(self.now_s())))

    def still_s(self) -> dict[TopicPartition, float]:
        """For how long messages of each partition have waited while none was finished."""
        now_s = self.now_s()
        return {
            place: now_s - seen.since_s if seen.waits else 0.0 for place, seen in self.seen.items()
        }

    def _problems(self, now_s: float) -> Iterator[str]:
        if self.told:
            yield self.told
        if now_s - self.looked_s >= STILL_S:
            yield (
                f"Kafka has not said where the partitions end {_since(now_s - self.looked_s)}:"
                f" {self.trouble}"
            )
        for place, still_s in sorted(self.still_s().items()):
            if still_s >= STILL_S:
                yield (
                    f"partition {place.partition} of {place.topic}: messages wait and none was"
                    f" finished {_since(still_s)}: does what the worker writes to answer?"
                )

    async def _run(self) -> None:
        log = Log(self.brokers)
        while True:
            try:
                async with asyncio.timeout(ANSWER_S):
                    self.seen = await look(self.positions(), self.seen, self.now_s(), log)
                self.looked_s = self.now_s()
            except Exception as error:  # whatever it is: it is told when it lasts
                self.trouble = str(error) or f"no answer within {ANSWER_S:.0f} s"
                await _leave(log)
                log = Log(self.brokers)
            await asyncio.sleep(LOOK_S)


async def _leave(log: Log) -> None:
    with suppress(Exception):
        async with asyncio.timeout(ANSWER_S):
            await log.close()


def _since(age_s: float) -> str:
    begin = datetime.fromtimestamp(time.time() - age_s, UTC)
    return f"for {age_s:.1f} s (since {begin:%Y-%m-%d %H:%M:%S} UTC)"


def watch(app: faust.App, folding: Folding[Any], brokers: str) -> Watchdog:
    """The watchdog of a worker that folds a topic; it has still to be started."""

    async def note(_: Any, /, *given: Any, signal: Any, **__: Any) -> None:
        [assigned] = given
        folding.assigned([at.partition for at in assigned if at.topic == folding.source.topic])

    app.on_partitions_assigned.connect(note)
    return Watchdog(brokers, folding.positions)
