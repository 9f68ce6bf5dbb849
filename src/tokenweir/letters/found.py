"""The letters of the dead-letter topic, each once, with what became of them."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

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


@dataclass(slots=True)
class Letters:
    """Gathers the letters that are meant while the topic is read, each once.

    After a crash a letter is sent again (S6). Several readers may each have one of the same record.
    """

    meant: Callable[[DeadLetter], bool]
    strangers: int = 0  # records that are no letters
    _found: dict[tuple[Place, str], Letter] = field(default_factory=dict)
    _notes: dict[Place, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._found)

    def add(self, entry: Entry) -> None:
        """Take the next record."""
        try:
            letter = decode_as(DeadLetter, entry.value)
        except BadRecord:
            self.strangers += 1
            return
        one = Letter(letter, entry.home, entry.append_ms)
        if letter.reader == RESENDER:
            self._notes[one.place] = letter.reason
        elif self.meant(letter):
            self._found.setdefault((one.place, letter.reader), one)

    def oldest_first(self) -> list[Letter]:
        """The letters, each with what became of it."""
        letters = [
            replace(one, resent=self._notes.get(one.place, "")) for one in self._found.values()
        ]
        return sorted(letters, key=lambda one: one.found_ms)


def note_of(letter: DeadLetter, how: str) -> DeadLetter:
    """The note that says how a letter was sent again; it outlives the letter, being younger."""
    return replace(letter, value=None, reason=how, reader=RESENDER)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
