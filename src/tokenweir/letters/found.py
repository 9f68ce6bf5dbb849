"""The letters of the dead-letter topic, each once, with what became of them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tokenweir.errors import BadInput, BadRecord
from tokenweir.records.journal import DeadLetter
from tokenweir.wire import decode_as

RESENDER = "resend"  # the reader of a note: a letter without a value that says what became of one


@dataclass(frozen=True, slots=True)
class Place:
    """Where the record lies that could not be used: a letter's name."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter, and where and when it came into the dead-letter topic."""

    letter: DeadLetter
    home: int  # the partition of the dead-letter topic
    found_ms: int
    resent: str = ""  # how it was sent again; empty while it was not

    @property
    def place(self) -> Place:
        """The name of the letter."""
        return Place(self.letter.topic, self.letter.partition, self.letter.offset)


@dataclass(frozen=True, slots=True)
class Entry:
    """A record of the dead-letter topic as it was read."""

    home: int
    append_ms: int
    value: bytes | None


def read_place(text: str) -> Place:
    """The place that `TOPIC/PARTITION/OFFSET` names; raises `BadInput`."""
    topic, _, rest = text.partition("/")
    partition, _, offset = rest.partition("/")
    if not topic or not _is_number(partition) or not _is_number(offset):
        raise BadInput(
            f"value {text!r}: TOPIC/PARTITION/OFFSET is allowed, as `tokenweir dead-letters list` "
            "names it"
        )
    return Place(topic, int(partition), int(offset))


def letters_of(entries: Iterable[Entry]) -> tuple[list[Letter], int]:
    """Each letter once, oldest first, and how many records were no letters.

    After a crash a letter is sent again (S6). Several readers may each have one of the same record.
    """
    found: dict[tuple[Place, str], Letter] = {}
    notes: dict[Place, str] = {}
    strangers = 0
    for entry in entries:
        try:
            letter = decode_as(DeadLetter, entry.value)
        except BadRecord:
            strangers += 1
            continue
        one = Letter(letter, entry.home, entry.append_ms)
        if letter.reader == RESENDER:
            notes[one.place] = letter.reason
        else:
            found.setdefault((one.place, letter.reader), one)
    letters = [replace(one, resent=notes.get(one.place, "")) for one in found.values()]
    return sorted(letters, key=lambda one: one.found_ms), strangers


def note_of(letter: DeadLetter, how: str) -> DeadLetter:
    """The note that says how a letter was sent again; it outlives the letter, being younger."""
    return replace(letter, value=None, reason=how, reader=RESENDER)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
