"""From a record of the journal to rows: each entry once, however often it was written (S6)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b

from tokenweir.errors import BadRecord
from tokenweir.history.figures import check_figures, decision_row, grant_rows, quota_rows
from tokenweir.history.letters import letter
from tokenweir.history.rows import Record, Rows, one_row
from tokenweir.history.tables import AUDIT, DECISIONS
from tokenweir.records.journal import (
    AuditEntry,
    Break,
    DeadLetter,
    DecisionEntry,
    JournalEntry,
)
from tokenweir.wire import decode_as

# In which table an entry's id and checksum stand.
HOMES = {DecisionEntry: DECISIONS.name, AuditEntry: AUDIT.name, Break: AUDIT.name}


@dataclass(frozen=True, slots=True)
class Entry:
    """A record of the journal, decoded."""

    record: Record
    entry: JournalEntry
    checksum: int  # of its bytes

    @property
    def home(self) -> str | None:
        """The table with its id; None for what no table holds (snapshots)."""
        return HOMES.get(type(self.entry.body))


@dataclass(frozen=True, slots=True)
class Unread:
    """A record of the journal that is not an entry."""

    record: Record
    reason: str


@dataclass(slots=True)
class Seen:
    """Which entries are in the tables; one for each partition, since a pool lies in one.

    `newest_ms` is exact, so an entry above it is new. An entry at or below it is looked up:
    `checksums` holds what the tables say of those, and what this run has added.
    """

    newest_ms: dict[tuple[str, str], int] = field(default_factory=dict)  # by table, pool
    checksums: dict[str, int] = field(default_factory=dict)  # by entry id

    def suspects(self, entry: Entry) -> bool:
        """Whether the entry may be in the tables already, so that they must be asked."""
        if entry.home is None or entry.entry.id in self.checksums:
            return False
        return entry.entry.at_ms <= self.newest_ms.get((entry.home, entry.entry.pool), -1)


def entry_of(record: Record) -> Entry | Unread:
    """Decode a record of the journal."""
    try:
        entry = decode_as(JournalEntry, record.value)
        if record.key != entry.pool.encode():
            raise BadRecord(f"key {record.key!r} is not its pool {entry.pool!r}")
        if isinstance(entry.body, DecisionEntry):
            check_figures(entry.body)
    except BadRecord as error:
        return Unread(record, str(error))
    digest = blake2b(record.value or b"", digest_size=8).digest()
    return Entry(record, entry, int.from_bytes(digest, "little"))


def fold_journal(seen: Seen, read: Entry | Unread) -> Iterator[Rows | DeadLetter]:
    """The rows that an entry makes; `seen` goes on. Suspects must have been looked up."""
    if isinstance(read, Unread):
        yield letter(read.record, read.reason)
        yield _unread(read)
        return
    if read.home is None:
        return
    entry = read.entry
    known = seen.checksums.get(entry.id)
    if known is None:
        seen.checksums[entry.id] = read.checksum
        at = (read.home, entry.pool)
        seen.newest_ms[at] = max(entry.at_ms, seen.newest_ms.get(at, -1))
        yield from _rows(read)
    elif known != read.checksum:
        yield _alarm(read, known)


def _rows(read: Entry) -> Iterator[Rows]:
    body = read.entry.body
    if isinstance(body, DecisionEntry):
        yield grant_rows(read.entry, body)
        yield quota_rows(read.entry, body)
        yield decision_row(read.entry, body, read.checksum)
    elif isinstance(body, AuditEntry):
        yield _audit(read, body)
    elif isinstance(body, Break):
        yield _broken(read, body)


def _audit(read: Entry, body: AuditEntry) -> Rows:
    return one_row(
        AUDIT,
        **_identity(read),
        kind=body.kind,
        subject=body.subject,
        lost=tuple(body.lost),
        gained=tuple(body.gained),
        amount=body.amount,
        unit=body.unit,
        before=body.before,
        after=body.after,
        why=body.why,
    )


def _broken(read: Entry, body: Break) -> Rows:
    after = f"reading goes on at {body.next_offset}, arithmetic {body.arithmetic}"
    return one_row(AUDIT, **_identity(read), **_note("break", read.entry.pool, "", after, body.why))


def _alarm(read: Entry, known: int) -> Rows:
    """A repeat with other bytes: somebody decided twice and not the same (S6)."""
    identity = _identity(read) | {"id": f"{read.record.place}/{read.record.offset}"}
    note = _note(
        "alarm",
        read.entry.id,
        f"checksum {known:016x}",
        f"checksum {read.checksum:016x}",
        "the entry was written again with other bytes; the first one stands",
    )
    return one_row(AUDIT, **identity, **note)


def _unread(read: Unread) -> Rows:
    record = read.record
    identity = {
        "pool": "",
        "at": record.append_ms,
        "id": f"{record.place}/{record.offset}",
        "checksum": 0,
    }
    return one_row(AUDIT, **identity, **_note("bad_record", "", "", "", read.reason))


def _identity(read: Entry) -> dict[str, object]:
    entry = read.entry
    return {"pool": entry.pool, "at": entry.at_ms, "id": entry.id, "checksum": read.checksum}


def _note(kind: str, subject: str, before: str, after: str, why: str) -> dict[str, object]:
    return {
        "kind": kind,
        "subject": subject,
        "lost": (),
        "gained": (),
        "amount": 0,
        "unit": "",
        "before": before,
        "after": after,
        "why": why,
    }
