"""One Kafka partition on its way into the tables."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tokenweir.history.ddl import Table
from tokenweir.history.journal import Entry, Seen, entry_of, fold_journal
from tokenweir.history.rows import Block, Place, Record, Rows
from tokenweir.history.sequences import Sequences
from tokenweir.history.tables import OF_JOURNAL, OF_USAGE
from tokenweir.history.usage import fold_usage
from tokenweir.records.journal import DeadLetter

BATCH_BYTES = 1_000_000  # of records; as rows, far below what one insert may hold
BATCH_RECORDS = 2_000

Effect = Rows | DeadLetter
# Ask the tables for the checksums of entries, by id; entries that they do not hold are absent.
Ask = Callable[[Sequence[Entry]], Mapping[str, int]]


class Reader(Protocol):
    """How the records of one log become rows, and what must be known for that."""

    @property
    def tables(self) -> tuple[Table, ...]:
        """In the order of their inserts; reading goes on behind the last one's newest row."""

    def fold(self, records: Sequence[Record], ask: Ask) -> Iterator[tuple[Record, Effect]]:
        """The effects of the next records, in log order."""


@dataclass(frozen=True, slots=True)
class UsageReader:
    """Reads the usage log."""

    sequences: Sequences
    partitions: int  # of the topic
    tables: tuple[Table, ...] = OF_USAGE

    def fold(self, records: Sequence[Record], ask: Ask) -> Iterator[tuple[Record, Effect]]:
        """Reports, each once (R1)."""
        for record in records:
            for effect in fold_usage(self.sequences, record, self.partitions):
                yield record, effect


@dataclass(frozen=True, slots=True)
class JournalReader:
    """Reads the journal."""

    seen: Seen
    tables: tuple[Table, ...] = OF_JOURNAL

    def fold(self, records: Sequence[Record], ask: Ask) -> Iterator[tuple[Record, Effect]]:
        """Entries, each once (S6)."""
        entries = [entry_of(record) for record in records]
        self.seen.checksums.clear()
        suspects = [e for e in entries if isinstance(e, Entry) and self.seen.suspects(e)]
        if suspects:
            self.seen.checksums.update(ask(suspects))
        for entry in entries:
            for effect in fold_journal(self.seen, entry):
                yield entry.record, effect


@dataclass(frozen=True, slots=True)
class Batch:
    """What some records in a row make: blocks in the order of their inserts, and dead letters."""

    next_offset: int
    blocks: tuple[Block, ...]
    letters: tuple[DeadLetter, ...]


@dataclass(slots=True)
class Lane:
    """What is read of one partition and not yet in the tables.

    `held` is the largest offset in each table when reading began, or -1: a crash between two
    inserts leaves one table ahead of the other, and what a table holds is not inserted again.
    """

    place: Place
    reader: Reader
    held: Mapping[str, int]
    next_offset: int = field(init=False)  # records below it are here already
    waiting: deque[Record] = field(default_factory=deque)
    waiting_bytes: int = 0
    since_s: float | None = None  # monotonic: when the oldest waiting record came

    def __post_init__(self) -> None:
        self.next_offset = self.begins

    @property
    def begins(self) -> int:
        """The offset at which reading goes on after a start."""
        return self.held[self.reader.tables[-1].name] + 1

    def receive(self, records: Sequence[Record], now_s: float) -> None:
        """Take the next records of the log."""
        for record in records:
            if record.offset >= self.next_offset:
                self.waiting.append(record)
                self.waiting_bytes += _size(record)
                self.next_offset = record.offset + 1
        if self.waiting and self.since_s is None:
            self.since_s = now_s

    def due(self, now_s: float, patience_s: float) -> bool:
        """Whether what waits is enough for an insert, or has waited long enough."""
        full = self.waiting_bytes >= BATCH_BYTES or len(self.waiting) >= BATCH_RECORDS
        return full or (self.since_s is not None and now_s - self.since_s >= patience_s)

    def next_batch(self, ask: Ask) -> Batch:
        """Take the longest batch of one day from what waits, and fold it."""
        records = self._cut()
        blocks = {table.name: Block(table) for table in self.reader.tables}
        letters: list[DeadLetter] = []
        for record, effect in self.reader.fold(records, ask):
            if isinstance(effect, DeadLetter):
                if record.offset > self.held["audit"]:
                    letters.append(effect)
            elif record.offset > self.held[effect.table.name]:
                blocks[effect.table.name].add(record, effect)
        filled = tuple(block for block in blocks.values() if len(block))
        return Batch(records[-1].offset + 1, filled, tuple(letters))

    def _cut(self) -> list[Record]:
        records = [self.waiting.popleft()]
        size = _size(records[0])
        while (
            self.waiting
            and self.waiting[0].day == records[0].day
            and size < BATCH_BYTES
            and len(records) < BATCH_RECORDS
        ):
            records.append(self.waiting.popleft())
            size += _size(records[-1])
        self.waiting_bytes -= size
        if not self.waiting:
            self.since_s = None
        return records


def _size(record: Record) -> int:
    return len(record.value or b"") + 100
