"""The ClickHouse engine in this process: each query on a connection of its own.

All calls block and may come from any thread. A connection of its own costs 0.2 ms, keeps settings
from leaking into the next query, and lets KILL QUERY end any of them.
"""

import contextlib
import os
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, cast

from chdb import _chdb

from streams.clickhouse.access import Limits
from streams.clickhouse.answer import Counts, Server
from streams.clickhouse.errors import from_engine, refusal
from streams.clickhouse.folder import address, locked, own_default
from streams.clickhouse.request import Query

_SMALLER: Final = "Ask for a format that is sent row by row, such as JSONEachRow or Native."
_NOTHING: Final = Counts()
_TAG: Final = "query_cache_tag"  # a setting without effect here, which names a query

# The formats whose pieces, put together, are the whole; the others are made in one go.
_STREAMED: Final = frozenset(
    (
        *("Native", "RowBinary", "MsgPack", "RawBLOB", "LineAsString", "CSV"),
        *("TabSeparated", "TSV", "TabSeparatedRaw", "TSVRaw"),
        *("JSONEachRow", "JSONLines", "NDJSON", "JSONStringsEachRow"),
        *("JSONCompactEachRow", "JSONCompactStringsEachRow"),
    )
)


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of an answer, and what has been counted up to it."""

    data: bytes
    counts: Counts


class _Result(Protocol):
    def bytes(self) -> bytes: ...
    def size(self) -> int: ...
    def rows_read(self) -> int: ...
    def bytes_read(self) -> int: ...
    def rows_written(self) -> int: ...
    def bytes_written(self) -> int: ...
    def storage_rows_read(self) -> int: ...
    def storage_bytes_read(self) -> int: ...
    def elapsed(self) -> float: ...


class _Connection(Protocol):
    """What the compiled module's connection offers; its own stub leaves it out."""

    def query(self, query: bytes, format: str) -> _Result: ...
    def send_query(self, query: bytes, format: str) -> object: ...
    def streaming_fetch_result(self, stream: object) -> _Result: ...
    def close(self) -> None: ...


class Engine:
    """One data folder, opened; at most one in a process, and one process at a folder."""

    def __init__(self, data: Path, limits: Limits) -> None:
        self.limits = limits
        self._lock = locked(data)
        self._address = address(data, limits)
        self._root = self._connect()  # the engine lives as long as one connection does
        for statement in own_default(data):
            self._root.query(statement, "Null")
        row = self._root.query(b"SELECT version(), timezone(), hostName()", "TSV").bytes()
        version, timezone, name = row.decode().strip().split("\t")
        self.server = Server(version, timezone, name)

    def close(self) -> None:
        """Let the folder go; no query may run."""
        self._root.close()
        os.close(self._lock)

    def answer(self, query: Query) -> Generator[Piece, None, None]:
        """Run a query and yield its answer, at least one piece; raises `QueryError`.

        To leave the iterator early ends the query.
        """
        connection = self._connect()
        try:
            if query.database != "default":
                connection.query(b"USE " + _quoted(query.database, "`"), "Null")
            connection.query(_settings(query, self.limits), "Null")
            yield from _run(connection, query, self.limits)
        except RuntimeError as error:
            raise from_engine(str(error)) from error
        except UnicodeDecodeError as error:  # the engine's message quotes bytes of the query
            raise from_engine(error.object.decode("utf-8", "replace")) from None
        finally:
            connection.close()

    def cancel(self, query_id: str) -> None:
        """Ask the engine to end a query; one that has ended already is no error."""
        condition = f"Settings['{_TAG}'] = ".encode() + _quoted(query_id, "'")
        connection = self._connect()
        try:
            connection.query(b"KILL QUERY WHERE " + condition + b" ASYNC", "Null")
        finally:
            connection.close()

    def _connect(self) -> _Connection:
        return cast(_Connection, cast(Any, _chdb).connect(self._address))


def _run(connection: _Connection, query: Query, limits: Limits) -> Iterator[Piece]:
    statement = query.statement
    if query.inserts_data:
        yield _piece(_insert(connection, query))
    elif statement.verb in ("SELECT", "WITH") and query.format in _STREAMED:
        yield from _streamed(connection, query)
    else:
        result = connection.query(statement.text, query.format)
        if result.size() > limits.body_bytes:
            raise refusal(396, f"The answer is larger than {limits.body_bytes} bytes. {_SMALLER}")
        yield _piece(result)


def _insert(connection: _Connection, query: Query) -> _Result:
    """Insert data as from a file.

    The engine has a call for data in memory (`send_insert`), but that obeys no setting: no limit,
    no `readonly`, no `max_partitions_per_insert_block`.
    """
    statement = query.statement
    with _in_file(query.data) as path:
        parts = (
            statement.text,  # its last line may be a comment
            b"FROM INFILE " + _quoted(path, "'") + b" COMPRESSION 'none'",
            statement.settings,
            b"FORMAT " + query.format.encode(),
        )
        return connection.query(b"\n".join(parts), "Null")


@contextlib.contextmanager
def _in_file(data: Sequence[bytes]) -> Iterator[str]:
    """Hold bytes in a file, in memory where the system can; the path is this process's own."""
    if sys.platform == "linux":
        with os.fdopen(os.memfd_create("insert"), "wb") as memory:
            memory.writelines(data)
            memory.flush()
            yield f"/proc/self/fd/{memory.fileno()}"
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.writelines(data)
            file.flush()
            yield file.name


def _streamed(connection: _Connection, query: Query) -> Iterator[Piece]:
    stream = connection.send_query(query.statement.text, query.format)
    so_far = Counts()
    while True:
        result = connection.streaming_fetch_result(stream)
        piece = _piece(result, so_far)
        so_far = piece.counts
        yield piece
        if result.rows_read() == 0:  # the last one may hold totals; it counts nothing else
            return


def _piece(result: _Result, before: Counts = _NOTHING) -> Piece:
    data = result.bytes()
    counts = Counts(
        read_rows=max(before.read_rows, result.storage_rows_read()),
        read_bytes=max(before.read_bytes, result.storage_bytes_read()),
        written_rows=result.rows_written(),
        written_bytes=result.bytes_written(),
        result_rows=before.result_rows + result.rows_read(),
        result_bytes=before.result_bytes + len(data),
        elapsed_ns=max(before.elapsed_ns, int(result.elapsed() * 1e9)),
    )
    return Piece(data, counts)


def _settings(query: Query, limits: Limits) -> bytes:
    """Return one SET, so that `readonly` does not forbid the others."""
    defaults = {"implicit_select": "0", "allow_introspection_functions": "0"}
    if query.format not in _STREAMED and not query.inserts_data:
        defaults["max_result_bytes"] = str(limits.result_bytes)
    values = defaults | dict(query.settings) | {_TAG: query.query_id}
    if values.get("max_execution_time") == "0":
        values["max_execution_time"] = str(limits.longest_s)
    pairs = [name.encode() + b" = " + _quoted(value, "'") for name, value in values.items()]
    pairs += [
        _quoted(f"param_{name}", "`") + b" = " + _quoted(value, "'")
        for name, value in query.parameters.items()
    ]
    return b"SET " + b", ".join(pairs)


def _quoted(text: str | bytes, quote: str) -> bytes:
    """Return a string literal or a quoted name."""
    raw = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    mark = quote.encode()
    return mark + raw.replace(b"\\", b"\\\\").replace(mark, b"\\" + mark) + mark
