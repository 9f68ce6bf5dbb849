"""`tokenweir dead-letters list`: what could not be used."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from tokenweir.cli.log import Log, open_log
from tokenweir.cli.moment import read_since
from tokenweir.cli.pools import Row
from tokenweir.cli.settings import Settings
from tokenweir.cli.show import Column, note, show_json, show_table
from tokenweir.errors import BadInput
from tokenweir.letters.contents import Contents, contents
from tokenweir.letters.found import Entry, Letter, Letters, Place
from tokenweir.records.journal import DeadLetter
from tokenweir.topics import Topics

SHOWN = 200  # rows of a table; --output json has all
MANY = 20_000  # take a while to read
MOST = 100_000  # are kept in memory, each with its record
COLUMNS = (
    Column("FOUND"),
    Column("PLACE"),
    Column("POOL"),
    Column("WHAT", drop=1),
    Column("BY", drop=2),
    Column("REASON"),
)


@dataclass(frozen=True, slots=True)
class Choice:
    """Which letters are meant; None and no places are any."""

    places: frozenset[Place] = frozenset()
    since_ms: int | None = None
    pool: str | None = None
    reason: str | None = None


def run(
    settings: Settings, since: str | None, pool: str | None, reason: str | None, output: str
) -> None:
    """Print one row a letter."""
    choice = read_choice(since, pool, reason, int(time.time() * 1000))
    letters = asyncio.run(_read(settings, choice))
    if output == "json":
        show_json([row_of(letter, contents(letter.letter.value)) for letter in letters])
    elif letters:
        show_table(COLUMNS, [_texts(letter) for letter in letters[-SHOWN:]])
        _count(letters)
    else:
        note("no dead letters")


def read_choice(since: str | None, pool: str | None, reason: str | None, now_ms: int) -> Choice:
    """The choice that the options say; raises `BadInput`."""
    since_ms = None if since is None else read_since(since, now_ms)
    return Choice(since_ms=since_ms, pool=pool, reason=reason)


async def _read(settings: Settings, choice: Choice) -> list[Letter]:
    async with open_log(settings.need_brokers()) as log:
        return await read_letters(log, Topics(settings.topic_prefix), choice)


async def read_letters(log: Log, topics: Topics, choice: Choice) -> list[Letter]:
    """The letters that are meant, oldest first; raises `BadInput` when there are too many."""
    partitions = await log.partitions(topics.dead_letter)
    starts = await log.starts(partitions)
    if choice.since_ms is not None:
        starts = await log.since(partitions, choice.since_ms)
    ends = await log.ends(partitions)
    count = sum(ends[part] - starts[part] for part in partitions)
    if count > MANY:
        note(f"reading {count} dead letters; --since reads fewer")
    letters = Letters(lambda letter: is_meant(letter, choice))
    for part in partitions:
        async for record in log.between(part, starts[part], ends[part]):
            letters.add(Entry(part.partition, record.timestamp, record.value))
            if len(letters) > MOST:
                raise BadInput(f"more than {MOST} letters: choose with --since, --pool or --reason")
    if letters.strangers:
        note(f"{letters.strangers} records of {topics.dead_letter} are no letters: passed over")
    return letters.oldest_first()


def is_meant(letter: DeadLetter, choice: Choice) -> bool:
    """Whether a letter has the place and the reason, and is of the pool, by key or by record."""
    if choice.places and Place(letter.topic, letter.partition, letter.offset) not in choice.places:
        return False
    if (choice.reason or "").casefold() not in letter.reason.casefold():
        return False
    if choice.pool is None or letter.key == choice.pool.encode():
        return True
    return contents(letter.value).pool == choice.pool


def row_of(letter: Letter, held: Contents) -> Row:
    """The exact figures of a letter."""
    return {
        "place": str(letter.place),
        "found_ms": letter.found_ms,
        "appended_ms": letter.letter.timestamp_ms,
        "key": None if letter.letter.key is None else letter.letter.key.decode(errors="replace"),
        "pool": pool_of(letter, held),
        "what": held.kind,
        "by": letter.letter.reader,
        "reason": letter.letter.reason,
        "resent": letter.resent or None,
    }


def pool_of(letter: Letter, held: Contents) -> str:
    """The pool that the record names, else its key."""
    return held.pool or (letter.letter.key or b"").decode(errors="replace")


def utc(at_ms: int) -> str:
    """A moment for people."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _texts(letter: Letter) -> list[str]:
    held = contents(letter.letter.value)
    sent = f" (sent again {letter.resent})" if letter.resent else ""
    return [
        utc(letter.found_ms),
        str(letter.place),
        pool_of(letter, held) or "-",
        held.kind,
        letter.letter.reader,
        letter.letter.reason + sent,
    ]


def _count(letters: Sequence[Letter]) -> None:
    more = len(letters) - SHOWN
    if more > 0:
        note(f"and {more} older ones (--output json has all)")
    sent = sum(bool(letter.resent) for letter in letters)
    note(f"{len(letters)} dead letters, {sent} of them sent again")
