"""What an answer's head says: content type, summary, and ClickHouse's own headers."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from streams.clickhouse.errors import QueryError
from streams.clickhouse.request import Query

_TEXT: Final = "text/plain; charset=UTF-8"
_BINARY: Final = "application/octet-stream"
_NDJSON: Final = "application/x-ndjson; charset=UTF-8"

_CONTENT_TYPES: Final = {
    "TabSeparated": "text/tab-separated-values; charset=UTF-8",
    "TSV": "text/tab-separated-values; charset=UTF-8",
    "CSV": "text/csv; charset=UTF-8; header=absent",
    "CSVWithNames": "text/csv; charset=UTF-8; header=present",
    "CSVWithNamesAndTypes": "text/csv; charset=UTF-8; header=present",
    "JSON": "application/json; charset=UTF-8",
    "JSONCompact": "application/json; charset=UTF-8",
    "JSONStrings": "application/json; charset=UTF-8",
    "JSONCompactStrings": "application/json; charset=UTF-8",
    "JSONColumns": "application/json; charset=UTF-8",
    "JSONColumnsWithMetadata": "application/json; charset=UTF-8",
    "JSONCompactColumns": "application/json; charset=UTF-8",
    "JSONObjectEachRow": "application/json; charset=UTF-8",
    "JSONEachRow": _NDJSON,
    "JSONLines": _NDJSON,
    "NDJSON": _NDJSON,
    "JSONStringsEachRow": _NDJSON,
    "JSONCompactEachRow": _NDJSON,
    "JSONCompactStringsEachRow": _NDJSON,
    "JSONEachRowWithProgress": _NDJSON,
    "XML": "application/xml; charset=UTF-8",
    "Markdown": "text/markdown; charset=UTF-8",
    "Native": _BINARY,
    "RowBinary": _BINARY,
    "RowBinaryWithNames": _BINARY,
    "RowBinaryWithNamesAndTypes": _BINARY,
    "Parquet": _BINARY,
    "Arrow": _BINARY,
    "ArrowStream": _BINARY,
    "ORC": _BINARY,
    "Avro": _BINARY,
    "MsgPack": _BINARY,
    "BSONEachRow": _BINARY,
    "Protobuf": _BINARY,
    "Npy": _BINARY,
}


@dataclass(frozen=True, slots=True)
class Counts:
    """What a query has read, written and returned so far."""

    read_rows: int = 0
    read_bytes: int = 0
    written_rows: int = 0
    written_bytes: int = 0
    result_rows: int = 0
    result_bytes: int = 0
    elapsed_ns: int = 0

    def summary(self) -> str:
        """Return the value of X-ClickHouse-Summary: all numbers as strings."""
        names = ("read_rows", "read_bytes", "written_rows", "written_bytes")
        more = ("result_rows", "result_bytes", "elapsed_ns")
        values = {name: str(getattr(self, name)) for name in names}
        values["total_rows_to_read"] = "0"
        return json.dumps(values | {name: str(getattr(self, name)) for name in more})


@dataclass(frozen=True, slots=True)
class Server:
    """What all answers say of the server."""

    version: str
    timezone: str
    name: str


def head(query: Query, server: Server, counts: Counts) -> dict[str, str]:
    """Return the headers of a query's answer."""
    headers = {
        "Content-Type": _CONTENT_TYPES.get(query.format, _TEXT),
        "X-ClickHouse-Format": query.format,
        "X-ClickHouse-Timezone": query.settings.get("session_timezone") or server.timezone,
        "X-ClickHouse-Summary": counts.summary(),
        **_common(server, query.query_id),
    }
    if query.coding:
        headers["Content-Encoding"] = query.coding
    return {name: value for name, value in headers.items() if _one_line(value)}


def error_head(error: QueryError, server: Server, query_id: str) -> dict[str, str]:
    """Return the headers of an error's answer."""
    headers: Mapping[str, str] = {
        "Content-Type": _TEXT,
        "X-ClickHouse-Exception-Code": str(error.code),
        **_common(server, query_id),
    }
    if error.status == 401:
        headers = {**headers, "WWW-Authenticate": 'Basic realm="ClickHouse server HTTP API"'}
    return {name: value for name, value in headers.items() if _one_line(value)}


def error_body(error: QueryError, server: Server) -> bytes:
    """Return the text of an error, as ClickHouse ends it."""
    text = f"{error.text} (version {server.version} (chDB))\n"
    return text.encode("utf-8", "replace")


def error_in_stream(error: QueryError, server: Server, tag: str) -> bytes:
    """Return how an error is told after the answer has begun; `tag` stands in its head."""
    message = error_body(error, server)
    parts = (b"\r\n__exception__\r\n", tag.encode(), b"\r\n", message)
    return b"".join((*parts, f"{len(message)} {tag}\r\n__exception__\r\n".encode()))


def _common(server: Server, query_id: str) -> dict[str, str]:
    return {"X-ClickHouse-Query-Id": query_id, "X-ClickHouse-Server-Display-Name": server.name}


def _one_line(value: str) -> bool:
    return value.isprintable()
