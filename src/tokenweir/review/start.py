"""Where a replay begins: the nearest complete snapshot before its range, else the log's start."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from tokenweir.core import ARITHMETIC
from tokenweir.core.pool import Pool, new_pool
from tokenweir.errors import BadInput
from tokenweir.records.journal import Break, JournalEntry, SnapshotChunk
from tokenweir.review.log import Bounds, Entry, Letter, PoolLog
from tokenweir.review.span import Span
from tokenweir.rows import from_rows
from tokenweir.snapshots import Snapshot, newest_snapshots
from tokenweir.wire import decode_as

# In the ids of entries that a search must decode; all others are decisions and audits.
SNAPSHOT_TEXT, BREAK_TEXT = b"/snapshot/", b"/break/"
# A snapshot is written a little after its boundary. When it is written later than that, after a
# worker was away, an older one is found and the replay takes longer.
LATE_MS = 30_000
# A pool that is met for the first time by a worker that cannot know what was before has this break,
# and no snapshot: its state is empty.
BLANK_BREAK = "the log starts at"


@dataclass(frozen=True, slots=True)
class Mark:
    """A place of the journal at which a state of the pool is known, or a break."""

    position: int  # of the first chunk, or of the break
    at_ms: int
    next_offset: int
    arithmetic: int
    is_break: bool = False
    is_blank: bool = False  # the state that is known is that of a new pool


@dataclass(frozen=True, slots=True)
class Begun:
    """A pool as it stood, and what to read from there on."""

    pool: Pool
    mark: Mark
    bounds: Bounds
    letters: Mapping[int, Letter]

    @property
    def is_snapshot(self) -> bool:
        """Whether it was restored, and does not begin at the log's start."""
        return not self.mark.is_blank


async def begin(log: PoolLog, span: Span) -> Begun:
    """The pool before the range, from the nearest state that is known.

    Where none is known before the range, it is the first one after it. Raises `BadInput` when there
    is none at all, and for a state that was computed with another arithmetic.
    """
    bounds = await log.bounds()
    mark = await first_mark(log, span, bounds)
    if mark.arithmetic != ARITHMETIC:
        raise BadInput(
            f"pool {log.pool}: decided with arithmetic {mark.arithmetic}, and this version has "
            f"{ARITHMETIC}: replay it with the version that decided"
        )
    pool = new_pool(log.pool) if mark.is_blank else await _restored(log, mark)
    return Begun(pool, mark, bounds, await log.letters())


async def first_mark(log: PoolLog, span: Span, bounds: Bounds) -> Mark:
    """The nearest state before the range that is known, else the first after it.

    Raises `BadInput` when there is none at all.
    """
    mark = await _nearest(log, span, bounds) or await _earliest(log, bounds)
    if mark is None:
        raise BadInput(
            f"pool {log.pool}: its log is kept from offset {bounds.first} on, and the journal has "
            "no snapshot from there on: nothing can be computed again"
        )
    return mark


async def snapshot_at(log: PoolLog, mark: Mark) -> Snapshot:
    """The whole snapshot of a mark."""
    chunks: list[JournalEntry] = []
    async with aclosing(log.journal(mark.position)) as entries:
        async for encoded in entries:
            if SNAPSHOT_TEXT in encoded.value:
                chunks += _chunk(encoded, mark)
            found = newest_snapshots(chunks)
            if found:
                return found[log.pool]
    raise BadInput(f"pool {log.pool}: the journal has lost its snapshot at {mark.at_ms}")


async def _restored(log: PoolLog, mark: Mark) -> Pool:
    return from_rows((await snapshot_at(log, mark)).rows)


def _chunk(encoded: Entry, mark: Mark) -> list[JournalEntry]:
    entry = decode_as(JournalEntry, encoded.value)
    body = entry.body
    wanted = isinstance(body, SnapshotChunk) and body.next_offset == mark.next_offset
    return [entry] if wanted and entry.at_ms == mark.at_ms else []


async def _nearest(log: PoolLog, span: Span, bounds: Bounds) -> Mark | None:
    """The last state before the range, searched from its beginning backwards."""
    if span.from_ms is None and span.from_offset is None:
        return None
    hint = span.from_ms
    if span.from_offset is not None:
        hint = await log.time_at(span.from_offset)
    entries: list[Entry] = []
    late_ms = None if hint is None else hint + LATE_MS
    async with aclosing(log.journal_before(late_ms)) as windows:
        async for window in windows:
            entries = [entry for entry in window if _is_mark(entry)] + entries
            found = _last_before(marks(entries), span, bounds.first)
            if found is not None:
                return found
    return None


def _last_before(found: Sequence[Mark], span: Span, first: int) -> Mark | None:
    for place in range(len(found) - 1, -1, -1):
        mark = found[place]
        if mark.is_break and span.from_offset is not None:
            # What is before it may have the same offsets in another log.
            after = [each for each in found[place:] if _is_usable(each, first)]
            return after[0] if after else None
        before = (
            mark.at_ms < span.from_ms
            if span.from_ms is not None
            else mark.next_offset < (span.from_offset or 0)
        )
        if before and _is_usable(mark, first):
            return mark
    return None


async def _earliest(log: PoolLog, bounds: Bounds) -> Mark | None:
    """The first state that is known: the log's start, if nothing is missing there."""
    blank = Mark(await log.journal_start(), 0, bounds.first, ARITHMETIC, is_blank=True)
    whole, seen = bounds.whole, list[Entry]()
    async with aclosing(log.journal(blank.position)) as entries:
        async for encoded in entries:
            if whole and not _is_mark(encoded):
                break
            seen += [encoded] if _is_mark(encoded) else []
            found = marks(seen)
            whole = whole and not any(mark.is_break for mark in found)
            usable = [mark for mark in found if _is_usable(mark, bounds.first)]
            if usable and not whole:
                return usable[0]
    return blank if whole else None


def marks(entries: Iterable[Entry]) -> list[Mark]:
    """Breaks and complete snapshots among entries of the journal, in its order."""
    found: list[Mark] = []
    open_: list[tuple[Entry, JournalEntry]] = []
    for encoded in entries:
        entry = decode_as(JournalEntry, encoded.value)
        body = entry.body
        if isinstance(body, Break):
            blank = body.why.startswith(BLANK_BREAK)
            at = (encoded.position, entry.at_ms, body.next_offset, body.arithmetic)
            found.append(Mark(*at, is_break=True, is_blank=blank))
        elif isinstance(body, SnapshotChunk):
            open_ = [*open_, (encoded, entry)] if body.chunk else [(encoded, entry)]
            if body.last and newest_snapshots(chunk for _, chunk in open_):
                position = open_[0][0].position
                found.append(Mark(position, entry.at_ms, body.next_offset, body.arithmetic))
    return found


def _is_usable(mark: Mark, first: int) -> bool:
    return (mark.is_blank or not mark.is_break) and mark.next_offset >= first


def _is_mark(entry: Entry) -> bool:
    # Decisions and audits need no decoding; a name in them that looks like this costs a moment.
    return SNAPSHOT_TEXT in entry.value or BREAK_TEXT in entry.value
