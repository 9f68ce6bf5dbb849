"""The events topic as a source: partitions that gather, each a gateway of its own (R1)."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from streams.checkpoint import Store
from streams.events_partition import GATHERED, EventsPartition, Found, find, gathering
from streams.log import Log
from streams.partition import Place
from tokenweir.events.gather import Gathering
from tokenweir.topics import Topics

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Start:
    """A gathering, the offset that it goes on at, and the checksums of its stored rows."""

    state: Gathering
    next_offset: int
    sums: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class EventsLog:
    """The log that is gathered into reports."""

    topics: Topics
    partitions: int

    @property
    def topic(self) -> str:
        """The events topic."""
        return self.topics.events

    async def load(
        self, partition: int, store: Store, log: Log, unfoldable: Mapping[int, str]
    ) -> tuple[EventsPartition, Mapping[str, str]]:
        """The partition as its newest checkpoint has it, or what is nearest to that."""
        place = Place(self.topics, partition, self.partitions)
        first, end = await log.bounds(self.topic, partition)
        found = find(store)
        start = None if found is None else _from_rows(found, partition, first, end)
        if start is None:
            start = _anew(partition, first, end)
        state, next_offset, sums = start.state, start.next_offset, start.sums
        return EventsPartition(place, state, next_offset, sums, unfoldable), {}


def _from_rows(found: Found, partition: int, first: int, end: int) -> Start | None:
    state = gathering(found)
    if state is None:
        return None
    if found.damaged:
        logger.warning(
            "partition %d: %d rows of remembered events are lost: what is sent again from before"
            " may count twice",
            partition,
            len(found.damaged),
        )
    next_offset = found.marker.next_offset
    if next_offset > end:
        logger.warning("partition %d: the log was made anew: read from %d", partition, first)
        next_offset = first
    return Start(state, next_offset, found.marker.pools[GATHERED])


def _anew(partition: int, first: int, end: int) -> Start:
    """Without rows: all of the log, whose reports come out the same again and are dropped (R1).

    Where its beginning is gone they would come out with other sequences: what was reported already
    would count twice, so only what comes from now on is gathered, by a gateway of another name.
    """
    name = f"events-{partition}"
    if first == 0:
        return Start(Gathering(name), 0, {})
    logger.error(
        "partition %d: its rows are lost, and the log begins at %d: events up to %d that were not"
        " reported yet are not counted",
        partition,
        first,
        end - 1,
    )
    return Start(Gathering(f"{name}-{end}"), end, {})
