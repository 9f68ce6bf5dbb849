"""The state of one partition of the usage topic: its pools, and how far they are folded.

Everything here is memory and arithmetic. A message goes in, the records to publish come out; who
reads, publishes and stores them is `streams.folding`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from streams.checkpoint import Checksums, Marker, checksums
from streams.core import Core, PoolState
from streams.dead_letters import dead_letter
from tokenweir.core.step import Decided
from tokenweir.errors import BadRecord, TokenweirError
from tokenweir.records.journal import JournalEntry
from tokenweir.snapshots import Snapshot, break_entry, is_due, snapshot_entries
from tokenweir.topics import (
    Topics,
    barred_key,
    leases_key,
    partition_of,
    pool_key,
    roster_key,
)
from tokenweir.usage_log import Message, read_usage
from tokenweir.wire import encode

CHECKPOINT_MS = 5_000  # of log time
P = TypeVar("P", bound=PoolState)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A record to publish, to the same partition of its topic as the message that caused it.

    `partition` is another one.
    """

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Which partition this is, of how many."""

    topics: Topics
    partition: int
    partitions: int


@dataclass(slots=True)
class Restored(Generic[P]):
    """Pools as a checkpoint or snapshots have them, and where each one goes on (S3)."""

    next_offset: int = 0
    pools: dict[str, P] = field(default_factory=dict)
    sums: dict[str, Checksums] = field(default_factory=dict)  # of the rows in the tables
    changed: set[str] = field(default_factory=set)  # pools whose rows differ from the tables'
    starts: dict[str, int] = field(default_factory=dict)  # pools that are ahead of `next_offset`
    strangers_start: int = 0  # where a pool that is not in `pools` starts
    why_break: dict[str, str] = field(default_factory=dict)  # pool: why replay must not cross this
    strangers_break: str = ""  # the same for a pool that is met for the first time


class Unfoldable(TokenweirError):
    """The core failed on a record in a way that it should not: its pool may be half changed.

    The state in memory is thrown away and loaded again, and this message goes to the dead letters.
    """

    def __init__(self, offset: int, reason: str) -> None:
        self.offset, self.reason = offset, reason
        super().__init__(f"offset {offset}: {reason}")


class Partition(Generic[P]):
    """Folds the messages of one partition.

    `unfoldable` are the offsets that the core is known to fail on, and how.
    """

    def __init__(
        self, core: Core[P], place: Place, restored: Restored[P], unfoldable: Mapping[int, str]
    ) -> None:
        self.core, self.place, self.unfoldable = core, place, unfoldable
        self.next_offset = restored.next_offset
        self.pools = restored.pools
        self.sums = restored.sums
        self.starts, self.strangers_start = restored.starts, restored.strangers_start
        self.strangers_break = restored.strangers_break
        self.clock_ms = self.checkpoint_ms = 0
        self.changed = restored.changed

    def take(self, message: Message) -> list[Outgoing]:
        """Fold the next message; what is to be published, in order.

        Raises `Unfoldable` when the core fails: this object must not be used any more then.
        """
        self.next_offset = message.offset + 1
        self.clock_ms = max(self.clock_ms, message.append_ms)
        self.checkpoint_ms = self.checkpoint_ms or self.clock_ms
        try:
            record = read_usage(message, self.place.partition, self.place.partitions)
        except BadRecord as error:
            return [self._letter(message, str(error))]
        if message.offset < self.starts.get(record.pool, self.strangers_start):
            return []
        out = [] if record.pool in self.pools else self._meet(record.pool, message.append_ms)
        pool = self.pools[record.pool]
        self.changed.add(pool.name)
        before_ms = pool.boundary_ms
        decided = self.core.advance(pool, message.append_ms)
        if decided is not None:
            out += self._decided(pool, decided, before_ms, message)
        return out + self._fold(pool, record, message)

    def is_even(self) -> bool:
        """Whether all pools stand at `next_offset`: none is ahead, as after snapshots (S3)."""
        return all(start <= self.next_offset for start in self.starts.values())

    def is_checkpoint_due(self) -> bool:
        """Whether log time has reached the next multiple of five seconds (S2)."""
        due = self.clock_ms // CHECKPOINT_MS > self.checkpoint_ms // CHECKPOINT_MS
        return due and self.is_even()

    def changed_rows(self) -> dict[str, bytes]:
        """All live rows of the pools that changed since the last checkpoint."""
        pools = (self.pools[name] for name in sorted(self.changed))
        return {key: row for pool in pools for key, row in self.core.to_rows(pool).items()}

    def rows_before(self) -> dict[str, str]:
        """The checksums that those pools' rows had at the last checkpoint."""
        return {k: v for name in self.changed for k, v in self.sums.get(name, {}).items()}

    def marker(self, rows: Mapping[str, bytes]) -> Marker:
        """The marker of a checkpoint that writes `rows`."""
        changed: dict[str, dict[str, str]] = {name: {} for name in self.changed}
        for key, value in checksums(rows).items():
            changed[_pool_of(key)][key] = value
        return Marker(self.next_offset, self.core.arithmetic, {**self.sums, **changed})

    def checkpointed(self, marker: Marker) -> None:
        """Take note that the marker and its rows are safe."""
        self.sums = dict(marker.pools)
        self.changed.clear()
        self.checkpoint_ms = self.clock_ms

    def breaks(self, whys: Mapping[str, str]) -> list[Outgoing]:
        """A break and a snapshot for each of the pools in `whys` (S5)."""
        return [
            self._journal(entry)
            for name, why in sorted(whys.items())
            for entry in self._break(self.pools[name], why)
        ]

    def _meet(self, name: str, append_ms: int) -> list[Outgoing]:
        self.pools[name] = self.core.new_pool(name)
        if not self.strangers_break:
            return []
        why, at = self.strangers_break, self.next_offset - 1
        return [self._journal(break_entry(name, append_ms, why, at, self.core.arithmetic))]

    def _fold(self, pool: P, record: Any, message: Message) -> list[Outgoing]:
        known = self.unfoldable.get(message.offset)
        if known is not None:
            return [self._letter(message, known)]
        try:
            entries = self.core.fold(pool, record, message.append_ms)
        except BadRecord as error:
            return [self._letter(message, str(error))]
        except Exception as error:
            raise Unfoldable(message.offset, f"{type(error).__name__}: {error}") from error
        return [self._journal(entry) for entry in entries]

    def _decided(
        self, pool: P, decided: Decided, before_ms: int, message: Message
    ) -> Iterator[Outgoing]:
        """Leases, barred and roster before the decision that needs them; then what happened."""
        control, name = self.place.topics.control, pool.name
        for leases in decided.leases:
            yield Outgoing(control, leases_key(name, leases.gateway, leases.part), encode(leases))
        if decided.barred is not None:
            yield Outgoing(control, barred_key(name), encode(decided.barred))
        if decided.roster is not None:
            yield Outgoing(control, roster_key(name), encode(decided.roster))
        yield Outgoing(control, pool_key(name), encode(decided.decision))
        for gateway, parts in decided.gone:
            for part in range(parts):
                yield Outgoing(control, leases_key(name, gateway, part), None)
        for spend in decided.spends:
            home = partition_of(spend.tenant, self.place.partitions)
            yield Outgoing(self.place.topics.spend, spend.tenant.encode(), encode(spend), home)
        yield from map(self._journal, decided.entries)
        if is_due(before_ms, pool.boundary_ms) or decided.roster is not None:  # a spec's first
            yield from map(self._journal, self._snapshot(pool, pool.boundary_ms, message.offset))

    def _snapshot(self, pool: P, at_ms: int, next_offset: int) -> Iterator[JournalEntry]:
        rows = self.core.to_rows(pool)
        return snapshot_entries(Snapshot(pool.name, at_ms, next_offset, self.core.arithmetic, rows))

    def _break(self, pool: P, why: str) -> Iterator[JournalEntry]:
        at_ms, next_offset = pool.clock_ms, max(self.next_offset, self.starts.get(pool.name, 0))
        yield break_entry(pool.name, at_ms, why, next_offset, self.core.arithmetic)
        yield from self._snapshot(pool, at_ms, next_offset)

    def _journal(self, entry: JournalEntry) -> Outgoing:
        return Outgoing(self.place.topics.journal, pool_key(entry.pool), encode(entry))

    def _letter(self, message: Message, reason: str) -> Outgoing:
        letter = dead_letter(self.place.topics.usage, self.place.partition, message, reason)
        return Outgoing(self.place.topics.dead_letter, message.key, encode(letter))


def _pool_of(row_key: str) -> str:
    return row_key.split("/")[1]
