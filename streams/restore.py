"""Where a partition goes on: from its rows, else from the journal, else from the log's start (S3).

Faust's committed offset is never asked.
"""

import logging
from collections.abc import Iterator, Mapping
from typing import TypeVar

from streams.checkpoint import Marker, Store, read_marker, read_rows
from streams.core import Core, PoolState
from streams.log import Log
from streams.partition import Place, Restored
from tokenweir.errors import BadRecord
from tokenweir.records.journal import JournalEntry, SnapshotChunk
from tokenweir.snapshots import Snapshot, newest_snapshots
from tokenweir.usage_log import Message
from tokenweir.wire import decode

logger = logging.getLogger(__name__)
P = TypeVar("P", bound=PoolState)
SNAPSHOT_TEXT = b"/snapshot/"  # in a chunk's id: entries without it need no decoding
JOURNAL_STEP = 2_000  # entries, read from the journal's end at first


async def restore(core: Core[P], place: Place, store: Store, log: Log) -> Restored[P]:
    """The state of a partition, and the offset to fold next.

    Pools whose state must not be compared with what follows are in `why_break` (S5).
    """
    first, end = await log.bounds(place.topics.usage, place.partition)
    marker = read_marker(store)
    restored = None if marker is None else from_rows(core, marker, store)
    if restored is None:
        wanted = None if marker is None else set(marker.pools)
        restored = from_snapshots(core, await _snapshots(place, log, wanted), marker, first)
    return _within(restored, first, end)


def from_rows(core: Core[P], marker: Marker, store: Store) -> Restored[P] | None:
    """The state that the marker's rows hold, or None if they do not fit it or cannot be read."""
    rows = read_rows(store, marker)
    pools = None if rows is None else _read_pools(core, rows)
    if pools is None:
        return None
    why = f"arithmetic {marker.arithmetic} gave way to {core.arithmetic}"
    return Restored(
        next_offset=marker.next_offset,
        pools=pools,
        sums=dict(marker.pools),
        why_break={} if marker.arithmetic == core.arithmetic else dict.fromkeys(pools, why),
    )


def from_snapshots(
    core: Core[P], newest: Mapping[str, Snapshot], marker: Marker | None, first: int
) -> Restored[P]:
    """The state that snapshots hold; they may stand at different offsets.

    The log is folded again from the smallest, and the messages of a pool whose snapshot is ahead
    are passed over until it is reached. A pool without a snapshot starts where it can first have
    had a message: at the marker, which names all pools before it, else at the log's start.
    """
    read = {name: _read_pools(core, {name: found.rows}) for name, found in newest.items()}
    pools = {name: pool for found in read.values() if found for name, pool in found.items()}
    newest = {name: newest[name] for name in pools}
    known = marker is not None and marker.pools.keys() <= newest.keys()
    strangers = marker.next_offset if marker is not None and known else first
    starts = {name: snapshot.next_offset for name, snapshot in newest.items()}
    stale = {} if marker is None else marker.pools
    return Restored(
        next_offset=min([strangers, *starts.values()]),
        pools=pools,
        # No row is taken to be right, and those that no pool has any more are deleted.
        sums={name: dict.fromkeys(sums, "") for name, sums in stale.items()},
        changed=set(newest),
        starts=starts,
        strangers_start=strangers,
        strangers_break=f"the log starts at {first}: what was before is not known"
        if first and not known
        else "",
        why_break={
            name: f"arithmetic {snapshot.arithmetic} gave way to {core.arithmetic}"
            for name, snapshot in newest.items()
            if snapshot.arithmetic != core.arithmetic
        },
    )


def _read_pools(core: Core[P], rows: Mapping[str, Mapping[str, bytes]]) -> dict[str, P] | None:
    """The pools in rows, or None when a single one cannot be read by this version."""
    try:
        return {name: core.from_rows(found) for name, found in rows.items()}
    except (BadRecord, LookupError, ValueError) as error:
        logger.warning("rows of %s cannot be read: %s", ", ".join(sorted(rows)), error)
        return None


def _within(restored: Restored[P], first: int, end: int) -> Restored[P]:
    """Start where the log is, if it was made anew and ends before what was folded already."""
    if restored.next_offset > end:
        why = f"the log ends at {end}, but {restored.next_offset} was to be read: it was made anew"
        restored.why_break.update(dict.fromkeys(restored.pools, why))
        restored.next_offset = restored.strangers_start = first
        restored.starts = {}
    return restored


async def _snapshots(place: Place, log: Log, wanted: set[str] | None) -> dict[str, Snapshot]:
    """The newest complete snapshots in the partition's journal.

    Reads backwards in growing steps until each pool in `wanted` has one; everything when it is not
    known which pools there are.
    """
    topic = place.topics.journal
    first, end = await log.bounds(topic, place.partition)
    chunks: list[JournalEntry] = []
    newest: dict[str, Snapshot] = {}
    start, step = end, JOURNAL_STEP
    while start > first and (wanted is None or not wanted <= newest.keys()):
        stop, start, step = start, max(first, start - step), 4 * step
        async for message in log.read(topic, place.partition, start, stop):
            chunks += _chunks(message)
        newest = newest_snapshots(chunks)
    return newest


def _chunks(message: Message) -> Iterator[JournalEntry]:
    if message.value is not None and SNAPSHOT_TEXT in message.value:
        entry = decode(message.value)
        if isinstance(entry.body, SnapshotChunk):
            yield entry
