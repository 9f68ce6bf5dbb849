"""Native blocks as a recent `client_protocol_version` asks for them.

From revision 54454 on a client of the HTTP interface (clickhouse-go, so Grafana's plugin) expects a
block's info before each block and a byte after each column's type. The engine in a process cannot
be told the revision, so both are put in here; clickhouse-connect's reader finds where columns end.
"""

from collections.abc import Iterator
from typing import Any, Final, cast

from clickhouse_connect.datatypes.registry import get_from_name
from clickhouse_connect.driver.buffer import ResponseBuffer
from clickhouse_connect.driver.exceptions import ClickHouseError
from clickhouse_connect.driver.query import QueryContext

from streams.clickhouse.errors import refusal

_BLOCK_INFO: Final = b"\x01\x00\x02\xff\xff\xff\xff\x00"  # no overflow rows, bucket -1
_PLAIN_SERIALIZATION: Final = b"\x00"


class _Whole:
    """A source of one chunk, whose position the reader keeps."""

    def __init__(self, data: bytes) -> None:
        self.gen: Iterator[bytes] = iter((data,))

    def close(self) -> None:
        """Do nothing."""


def for_revision(data: bytes) -> bytes:
    """Return whole Native blocks in the form of revision 54454.

    Raises `QueryError` for a column type that the reader does not know.
    """
    if not data:
        return b""
    reader = cast(Any, ResponseBuffer)(_Whole(data))
    reader.buffer, reader.buf_sz, reader.gen = data, len(data), iter(())
    parts: list[bytes] = []
    while reader.buf_loc < len(data):
        parts += _block(reader, data)
    return b"".join(parts)


def _block(reader: Any, data: bytes) -> Iterator[bytes]:
    yield _BLOCK_INFO
    start = reader.buf_loc
    columns, rows = reader.read_leb128(), reader.read_leb128()
    yield data[start : reader.buf_loc]
    for _ in range(columns):
        start = reader.buf_loc
        reader.read_leb128_str()
        kind = reader.read_leb128_str()
        yield data[start : reader.buf_loc] + _PLAIN_SERIALIZATION
        start = reader.buf_loc
        _skip(reader, kind, rows)
        yield data[start : reader.buf_loc]


def _skip(reader: Any, kind: str, rows: int) -> None:
    if not rows:
        return
    try:
        get_from_name(kind).read_column(reader, rows, QueryContext())
    except (ClickHouseError, NotImplementedError) as error:
        raise refusal(
            48,
            f"Native with a protocol version does not work for {kind}: {error}. Use FORMAT JSON.",
        ) from error
