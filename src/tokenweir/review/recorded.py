"""What the journal says of one pool, in order, each entry once (S6)."""

from collections.abc import AsyncIterator

from tokenweir.records.journal import Break, JournalEntry, SnapshotChunk
from tokenweir.review.encoded.numbers import number
from tokenweir.review.log import Entry
from tokenweir.snapshots import Snapshot, newest_snapshots
from tokenweir.wire import decode_as, head_of

KEPT = (0, 1)  # the places of decisions and audit entries among the bodies of an entry


def boundary_of(id_: str) -> int:
    """The boundary in an entry's id, `pool@boundary` or `pool@boundary/what/number`, ms."""
    return int(id_.split("/")[0].rpartition("@")[2])


class Recorded:
    """The journal from somewhere on, read as far as it is asked for.

    It ends at a `break`, or where the journal ends. `alarms` are the ids of entries that were
    written again with other bytes; what was written first counts.
    """

    def __init__(self, entries: AsyncIterator[Entry], begins_at: tuple[int, int]) -> None:
        """`begins_at` are time and next offset of the break that is not to be stopped at."""
        self._entries, self._begins_at = entries, begins_at
        self._seen: dict[tuple[str, int], int] = {}  # 64 bits of what was written
        self._chunks: dict[tuple[int, int], list[JournalEntry]] = {}
        self.waiting: dict[str, bytes] = {}  # decisions and audits that nobody took yet
        self.alarms: list[str] = []
        self.repeats = 0
        self.newest_ms = 0  # the latest boundary that was read
        self.has_ended = False
        self.broken: Break | None = None

    async def upto(self, boundary_ms: int) -> None:
        """Read all entries of this boundary and of those before it."""
        while not self.has_ended and self.newest_ms <= boundary_ms:
            await self._next()

    async def rest(self) -> None:
        """Read to the end."""
        while not self.has_ended:
            await self._next()

    def before(self, boundary_ms: int) -> list[JournalEntry]:
        """Take the entries of earlier boundaries that nobody took, in the order of their ids."""
        late = sorted(id_ for id_ in self.waiting if boundary_of(id_) < boundary_ms)
        return [decode_as(JournalEntry, self.waiting.pop(id_)) for id_ in late]

    def snapshot(self, at_ms: int, next_offset: int) -> Snapshot | None:
        """The snapshot of this boundary and offset, if it is there and complete."""
        for key in [key for key in self._chunks if key[0] < at_ms]:
            del self._chunks[key]
        chunks = self._chunks.get((at_ms, next_offset))
        return next(iter(newest_snapshots(chunks).values()), None) if chunks else None

    async def _next(self) -> None:
        encoded = await anext(self._entries, None)
        if encoded is None:
            self.has_ended = True
            return
        id_ = _id_of(encoded.value)
        if id_ is not None:
            self._keep(id_, encoded.value)
            return
        entry = decode_as(JournalEntry, encoded.value)
        match entry.body:
            case Break(next_offset=next_offset):
                known = (entry.at_ms, next_offset) == self._begins_at
                if not self._is_repeat(entry.id, encoded.value) and not known:
                    self.broken, self.has_ended = entry.body, True
            case SnapshotChunk(next_offset=next_offset):
                # A break's may stand at the same boundary as another, and is another state.
                if not self._is_repeat(entry.id, encoded.value, next_offset):
                    self._chunks.setdefault((entry.at_ms, next_offset), []).append(entry)
            case _:
                self._keep(entry.id, encoded.value)

    def _keep(self, id_: str, value: bytes) -> None:
        """A decision or an audit entry: it is read only where it is not what was computed."""
        if not self._is_repeat(id_, value):
            self.waiting[id_] = value
            self.newest_ms = max(self.newest_ms, boundary_of(id_))

    def _is_repeat(self, id_: str, value: bytes, offset: int = -1) -> bool:
        known, sum_ = (id_, offset), hash(value)
        if known not in self._seen:
            self._seen[known] = sum_
            return False
        self.repeats += 1
        if self._seen[known] != sum_:
            self.alarms.append(id_)
        return True


def _id_of(value: bytes) -> str | None:
    """The id of a decision or an audit entry, without the rest; None: it has to be read whole."""
    head = head_of(JournalEntry)
    if not value.startswith(head):
        return None
    try:
        size, at = number(value, len(head))
        _, at = number(value, at + size)
        size, at = number(value, at)
        body, _ = number(value, at + size)
        return value[at : at + size].decode() if body in KEPT else None
    except (IndexError, ValueError):
        return None
