"""The spend topic as a source: partitions that share quotas between pools (Q2)."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from streams.checkpoint import Marker, Store, checksum, read_marker
from streams.log import Log
from streams.partition import Place
from streams.quota_partition import FORM, SHARED, QuotaPartition, name_of
from tokenweir.across.rows import from_rows
from tokenweir.across.share import Across
from tokenweir.errors import BadRecord
from tokenweir.topics import Topics

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SpendLog:
    """The log of what pools spent."""

    topics: Topics
    partitions: int

    @property
    def topic(self) -> str:
        """The spend topic."""
        return self.topics.spend

    async def load(
        self, partition: int, store: Store, log: Log, unfoldable: Mapping[int, str]
    ) -> tuple[QuotaPartition, Mapping[str, str]]:
        """The partition as its newest checkpoint has it, or from the log's start.

        Pools say what they were given, so what the log does not hold any more is learned again.
        """
        place = Place(self.topics, partition, self.partitions)
        first, end = await log.bounds(self.topic, partition)
        marker = read_marker(store)
        state = _stored(store, marker) if marker is not None else None
        if marker is None or state is None or marker.next_offset > end:
            logger.info("partition %d: quotas across pools are read from %d", partition, first)
            return QuotaPartition(place, Across(), first, {}, unfoldable), {}
        sums = marker.pools[SHARED]
        return QuotaPartition(place, state, marker.next_offset, sums, unfoldable), {}


def _stored(store: Store, marker: Marker) -> Across | None:
    """The state in the rows that the marker names, or None if a single one does not fit."""
    if marker.arithmetic != FORM:
        return None
    rows = {}
    for key, wanted in marker.pools[SHARED].items():
        row = store.get(key)
        if row is None or checksum(row) != wanted:
            return None
        rows[name_of(key)] = row
    try:
        return from_rows(rows)
    except (BadRecord, ValueError):
        return None
