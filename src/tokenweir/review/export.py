"""Write an incident into a file: what a replay of the range needs, and nothing else."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from tokenweir.records.journal import AuditEntry, Break, JournalEntry
from tokenweir.review.container import Incident, IncidentWriter
from tokenweir.review.log import Entry, Letter, PoolLog
from tokenweir.review.recorded import boundary_of
from tokenweir.review.replay import Progress, Told
from tokenweir.review.span import Span
from tokenweir.review.start import Begun, begin
from tokenweir.review.users import Renaming, digest_of, numbers, rename, renamed
from tokenweir.usage_log import Message
from tokenweir.wire import decode_as

# Behind the range's last decision: the messages of its interval, which belong to its audit.
TAIL_MS = 1_000


@dataclass(frozen=True, slots=True)
class Contents:
    """What a first reading found: the last message, how many, until when, and whose names."""

    end: int
    messages: int
    clock_ms: int
    users: frozenset[str]


async def export(
    log: PoolLog,
    span: Span,
    path: Path,
    secret: bytes | None,
    told: Told = lambda _: None,
) -> Incident:
    """Write the range, and the snapshot before it, into a file; what is in it.

    With a `secret` users become numbers and requests digests (`review.users`); with None all names
    stay. Reads the range twice. Raises what `begin` raises, and OSError for the file.
    """
    begun = await begin(log, span)
    found = await _contents(log, span, begun, with_users=secret is not None)
    incident = Incident(
        pool=log.pool,
        partition=log.partition,
        partitions=log.partitions,
        first=begun.mark.next_offset,
        end=found.end,
        whole=begun.mark.is_blank,
        journal_start=await log.journal_start(),
        messages=found.messages,
        users="kept" if secret is None else "numbered",
    )
    names = numbers(found.users)
    change = None if secret is None else Change(lambda name: names.get(name, name), secret)
    with IncidentWriter(path, incident) as file:
        for letter in _letters(begun, found):
            file.letter(letter)
        async for entry in _entries(log, begun, found.clock_ms):
            file.entry(entry if change is None else change.entry(entry))
        async with aclosing(_messages(log, span, begun)) as messages:
            async for message in messages:
                file.message(message if change is None else change.message(message))
                told(_progress(begun, found, message))
    return incident


class Change:
    """Other names for users and requests, in messages and entries."""

    def __init__(self, user: Renaming, secret: bytes) -> None:
        self.user, self.request = user, digest_of(secret)

    def message(self, message: Message) -> Message:
        """A message with other names; without a value when it cannot be read."""
        value = rename(message.value, self.user, self.request)
        return Message(message.offset, message.append_ms, message.key, value)

    def entry(self, entry: Entry) -> Entry:
        """An entry with other names."""
        return Entry(entry.position, rename(entry.value, self.user, self.request) or b"")


async def _contents(log: PoolLog, span: Span, begun: Begun, *, with_users: bool) -> Contents:
    users: set[str] = set()

    def note(name: str) -> str:
        users.add(name)
        return name

    end, count, clock_ms = begun.mark.next_offset, 0, begun.pool.clock_ms
    async with aclosing(_messages(log, span, begun)) as messages:
        async for message in messages:
            end, count = message.offset + 1, count + 1
            clock_ms = max(clock_ms, message.append_ms)
            if with_users:
                rename(message.value, note, str)
    if with_users:
        async for entry in _entries(log, begun, clock_ms):
            decoded = decode_as(JournalEntry, entry.value)
            # An audit names users that are named elsewhere too, and windows that look like them.
            if not isinstance(decoded.body, AuditEntry):
                renamed(decoded, note, str)
    return Contents(end, count, clock_ms, frozenset(users))


async def _messages(log: PoolLog, span: Span, begun: Begun) -> AsyncGenerator[Message, None]:
    """The messages that the range's decisions depend on, and those of its last interval."""
    async with aclosing(log.messages(begun.mark.next_offset)) as messages:
        async for message in messages:
            if span.to_offset is not None and message.offset > span.to_offset:
                return
            yield message
            interval_ms = begun.pool.spec.interval_ms if begun.pool.spec else TAIL_MS
            if span.to_ms is not None and message.append_ms >= span.to_ms + interval_ms:
                return


async def _entries(log: PoolLog, begun: Begun, clock_ms: int) -> AsyncGenerator[Entry, None]:
    """The journal from where a replay begins to the last boundary that the messages reach."""
    async with aclosing(log.journal(begun.mark.position)) as entries:
        async for entry in entries:
            if _is_later(entry, clock_ms):
                return
            yield entry


def _is_later(entry: Entry, clock_ms: int) -> bool:
    decoded = decode_as(JournalEntry, entry.value)
    return not isinstance(decoded.body, Break) and boundary_of(decoded.id) > clock_ms


def _letters(begun: Begun, found: Contents) -> list[Letter]:
    first = begun.mark.next_offset
    inside = (offset for offset in begun.letters if first <= offset < found.end)
    return [begun.letters[offset] for offset in sorted(inside)]


def _progress(begun: Begun, found: Contents, message: Message) -> Progress:
    return Progress(message.offset, begun.mark.next_offset, found.end, message.append_ms)
