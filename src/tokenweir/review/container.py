"""An incident as one file: an Avro container with a pool's log, its journal and the schemas.

Each row is one message, entry or letter, its value in the wire's form; the container's metadata has
what the file is (`tokenweir.incident`) and every schema of the wire (`tokenweir.schemas`), so that
any reader of Avro can make sense of the values. Order: letters, journal, messages.
"""

import json
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, cast

from fastavro import parse_schema, reader
from fastavro.write import Writer

from tokenweir.errors import BadInput
from tokenweir.review.log import Bounds, Entry, Letter
from tokenweir.topics import pool_key
from tokenweir.usage_log import Message
from tokenweir.wire import schemas

FORM = 1  # of the file
INCIDENT, SCHEMAS = "tokenweir.incident", "tokenweir.schemas"
Kind = Literal["letter", "journal", "message"]
ROW = parse_schema(
    {
        "type": "record",
        "name": "IncidentRow",
        "namespace": "tokenweir",
        "fields": [
            {
                "name": "kind",
                "type": {
                    "type": "enum",
                    "name": "IncidentKind",
                    "symbols": ["letter", "journal", "message"],
                },
            },
            {"name": "offset", "type": "long", "doc": "In the topic that it was read from."},
            {"name": "time_ms", "type": "long", "doc": "A message's append time; else 0."},
            {"name": "value", "type": ["null", "bytes"], "doc": "A letter's is the reason."},
        ],
    }
)


@dataclass(frozen=True, slots=True)
class Incident:
    """What a file holds. `whole`: from the pool's first message on, with no snapshot before it."""

    pool: str
    partition: int
    partitions: int
    first: int  # offset
    end: int  # offset behind the last
    whole: bool
    journal_start: int  # the first position that the journal had
    messages: int
    users: Literal["numbered", "kept"]
    form: int = FORM


class IncidentWriter:
    """Writes a file row by row; the rows' order is the caller's to keep."""

    def __init__(self, path: Path, incident: Incident) -> None:
        self._file = path.open("wb")
        known = [{"version": version, **schema} for _, version, schema in schemas()]
        metadata = {INCIDENT: json.dumps(asdict(incident)), SCHEMAS: json.dumps(known)}
        self._writer = Writer(self._file, ROW, codec="deflate", metadata=metadata)

    def letter(self, letter: Letter) -> None:
        """Write a letter."""
        self._row("letter", letter.offset, letter.append_ms, letter.reason.encode())

    def entry(self, entry: Entry) -> None:
        """Write an entry of the journal."""
        self._row("journal", entry.position, 0, entry.value)

    def message(self, message: Message) -> None:
        """Write a message; its key is the pool's."""
        self._row("message", message.offset, message.append_ms, message.value)

    def _row(self, kind: Kind, offset: int, time_ms: int, value: bytes | None) -> None:
        row = {"kind": kind, "offset": offset, "time_ms": time_ms, "value": value}
        self._writer.write(row)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._writer.flush()
        self._file.close()


class FileLog:
    """An exported file as a `PoolLog`."""

    def __init__(self, path: Path) -> None:
        """Raises `BadInput` when the file is not one that `tokenweir export` has written."""
        self.path = path
        self.incident = _incident(path)
        self.pool = self.incident.pool
        self.partition, self.partitions = self.incident.partition, self.incident.partitions

    async def bounds(self) -> Bounds:
        """What the file has."""
        return Bounds(self.incident.first, self.incident.end, self.incident.whole)

    async def messages(self, start: int) -> AsyncGenerator[Message, None]:
        """Its messages."""
        key = pool_key(self.pool)
        for row in self._rows("message"):
            if row["offset"] >= start:
                yield Message(row["offset"], row["time_ms"], key, row["value"])

    async def time_at(self, offset: int) -> int | None:
        """The append time there."""
        later = (row for row in self._rows("message") if row["offset"] >= offset)
        return next((row["time_ms"] for row in later), None)

    async def journal_start(self) -> int:
        """Where the journal began when it was exported."""
        return self.incident.journal_start

    async def journal(self, position: int) -> AsyncGenerator[Entry, None]:
        """Its entries."""
        for row in self._rows("journal"):
            if row["offset"] >= position:
                yield Entry(row["offset"], row["value"])

    async def journal_before(self, time_ms: int | None) -> AsyncGenerator[Sequence[Entry], None]:
        """One window: all there is."""
        yield [Entry(row["offset"], row["value"]) for row in self._rows("journal")]

    async def letters(self) -> Mapping[int, Letter]:
        """What the control plane could not use."""
        return {
            row["offset"]: Letter(row["offset"], row["time_ms"], row["value"].decode())
            for row in self._rows("letter")
        }

    def _rows(self, kind: Kind) -> Iterator[dict[str, Any]]:
        """The rows of one kind, which stand together."""
        met = False
        with self.path.open("rb") as file:
            for found in reader(file):
                row = cast(dict[str, Any], found)
                if row["kind"] == kind:
                    met = True
                    yield row
                elif met:
                    return


def _incident(path: Path) -> Incident:
    try:
        with path.open("rb") as file:
            content = json.loads(reader(file).metadata[INCIDENT])
        if content["form"] == FORM:
            return Incident(**content)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}; name a file of `tokenweir export`") from error
    except (ValueError, LookupError, TypeError, EOFError) as error:
        raise BadInput(f"{path}: not a file of `tokenweir export`: {error}") from error
    raise BadInput(f"{path}: form {content['form']}, and this version reads form {FORM}: upgrade")
