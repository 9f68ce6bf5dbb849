"""A request of ClickHouse's HTTP interface, read into one value. Nothing here waits or writes."""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from streams.clickhouse.compression import choose_coding
from streams.clickhouse.errors import refusal
from streams.clickhouse.sql import Statement, read_statement

_FIELDS: Final = 4096
_HEAD_BYTES: Final = 1 << 18  # of a body, where its query is looked for: max_query_size
_LONGEST_BYTES: Final = 1 << 24  # of a query's text, whatever max_query_size says
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")

# Parameters of the interface itself; `param_NAME` are the query's, all others are settings.
_RESERVED: Final = frozenset(
    (
        *("query", "database", "default_format", "query_id", "user", "password", "quota_key"),
        *("session_id", "session_timeout", "session_check", "close_session", "role"),
        *("compress", "decompress", "buffer_size", "wait_end_of_query", "stacktrace"),
        "client_protocol_version",
    )
)
_SESSION_STATE: Final = frozenset({"SET", "USE"})


@dataclass(frozen=True, slots=True)
class Query:
    """One query with all that decides its answer."""

    statement: Statement
    data: tuple[bytes, ...]  # what an INSERT carries, in its format
    database: str
    format: str  # of the answer; of the data, for an INSERT that carries some
    settings: Mapping[str, str]
    parameters: Mapping[str, bytes]  # {NAME:Type}, as ClickHouse escapes them
    query_id: str
    native_blocks: bool  # compress=1
    coding: str | None  # Content-Encoding of the answer
    whole: bool  # wait_end_of_query=1
    revision: int  # client_protocol_version

    @property
    def inserts_data(self) -> bool:
        """Tell whether the data of an INSERT came with it."""
        return self.statement.data_at is not None


Fields = Mapping[str, bytes]


def read_fields(query_string: str) -> dict[str, bytes]:
    """Return the URL's parameters, percent-decoded; of a repeated one the last."""
    try:
        pairs = parse_qsl(
            query_string,
            keep_blank_values=True,
            errors="surrogateescape",
            max_num_fields=_FIELDS,
        )
    except ValueError as error:
        raise refusal(62, f"The URL has more than {_FIELDS} parameters.") from error
    return {name: value.encode("utf-8", "surrogateescape") for name, value in pairs}


def check_user(fields: Fields, headers: Mapping[str, str]) -> None:
    """Raise `QueryError` unless it is the user `default` without a password."""
    name, password = _credentials(fields, headers)
    if (name or "default", password) != ("default", ""):
        raise refusal(
            516,
            f"{name}: Authentication failed: password is incorrect, or there is no user with such "
            "name. This server has the user 'default' without a password.",
        )


def _credentials(fields: Fields, headers: Mapping[str, str]) -> tuple[str, str]:
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "basic":
        try:
            plain = base64.b64decode(token, validate=True).decode("utf-8", "replace")
        except binascii.Error:
            raise refusal(516, "Authentication failed: invalid Basic credentials.") from None
        name, _, password = plain.partition(":")
        return name, password
    if scheme:
        return "", token or scheme
    if "X-ClickHouse-User" in headers or "X-ClickHouse-Key" in headers:
        return headers.get("X-ClickHouse-User", ""), headers.get("X-ClickHouse-Key", "")
    return _text(fields, "user"), _text(fields, "password")


def read_query(fields: Fields, headers: Mapping[str, str], body: bytes, *, get: bool) -> Query:
    """Return the query of a request whose body has lost its compression.

    Raises `QueryError` with ClickHouse's code for what it refuses.
    """
    statement, data = _statement(fields.get("query", b""), body)
    _refuse_state(statement, fields)
    if _text(fields, "role"):
        raise refusal(511, f"There is no role {_text(fields, 'role')!r}: this server has none.")
    chosen = _text(fields, "default_format") or headers.get("X-ClickHouse-Format", "")
    if chosen.lower() == "dataframe":  # the engine's name for objects of Python
        raise refusal(73, f"Unknown format {chosen}.")
    settings = _settings(fields, get)
    wants_coding = settings.get("enable_http_compression", "0").lower() in ("1", "true")
    return Query(
        statement=statement,
        data=data,
        database=_text(fields, "database") or headers.get("X-ClickHouse-Database", "") or "default",
        format=statement.format or chosen or "TabSeparated",
        settings=settings,
        parameters={n[6:]: value for n, value in fields.items() if n.startswith("param_")},
        query_id=_text(fields, "query_id"),
        native_blocks=_flag(fields, "compress"),
        coding=choose_coding(headers.get("Accept-Encoding", "")) if wants_coding else None,
        whole=_flag(fields, "wait_end_of_query"),
        revision=_number(fields, "client_protocol_version"),
    )


def _statement(from_url: bytes, body: bytes) -> tuple[Statement, tuple[bytes, ...]]:
    """Read the query from the URL, a newline and the body; the body's rest is data."""
    start = from_url + b"\n" if from_url else b""
    head, rest = start + body[:_HEAD_BYTES], body[_HEAD_BYTES:]
    statement = read_statement(head)
    if statement.data_at is None and len(rest) > _LONGEST_BYTES:
        raise refusal(62, f"The query is longer than {_LONGEST_BYTES} bytes.")
    if statement.data_at is None:
        return (read_statement(head + rest) if rest else statement), ()
    data = (head[statement.data_at :], rest)
    return statement, tuple(piece for piece in data if piece)


def _refuse_state(statement: Statement, fields: Fields) -> None:
    words = statement.text.split(maxsplit=2)[:2]
    temporary = [word.upper() for word in words] == [b"CREATE", b"TEMPORARY"]
    if "session_id" in fields and (statement.verb in _SESSION_STATE or temporary):
        raise refusal(
            48,
            f"{statement.verb} would last for a session, and this server keeps none: send "
            "settings and the database with each request.",
        )


def _settings(fields: Fields, get: bool) -> dict[str, str]:
    names: Sequence[str] = [
        name for name in fields if name not in _RESERVED and not name.startswith("param_")
    ]
    for name in names:
        if not _NAME.fullmatch(name):
            raise refusal(115, f"Unknown setting '{name}'.")
    settings = {name: _text(fields, name) for name in names}
    if get and settings.get("readonly", "0") == "0":
        settings["readonly"] = "2"  # as in ClickHouse: GET changes nothing, settings may be set
    return settings


def _text(fields: Fields, name: str) -> str:
    return fields.get(name, b"").decode("utf-8", "replace")


def _flag(fields: Fields, name: str) -> bool:
    return _text(fields, name).lower() in ("1", "true")


def _number(fields: Fields, name: str) -> int:
    text = _text(fields, name)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
