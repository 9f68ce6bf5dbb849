"""Native blocks as a recent `client_protocol_version` asks for them.

From revision 54454 on a client of the HTTP interface (clickhouse-go, so Grafana's plugin) expects a
block's info before each block and a byte after each column's type. The engine in a process cannot
be told the revision, so both are put in here: it is found out where columns end, no value is read.

The layout is that of ClickHouse's serializations: what every part of a type writes first (the
prefix) comes before the values of all parts.
"""

import re
import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from streams.clickhouse.errors import refusal

WITH_CUSTOM_SERIALIZATION: Final = 54454  # clients below also read the plain form

_BLOCK_INFO: Final = b"\x01\x00\x02\xff\xff\xff\xff\x00"  # no overflow rows, bucket -1
_PLAIN_SERIALIZATION: Final = b"\x00"

_WIDTHS: Final = {
    **dict.fromkeys(("Int8", "UInt8", "Bool", "Enum8", "Nothing"), 1),
    **dict.fromkeys(("Int16", "UInt16", "Enum16", "Date", "BFloat16"), 2),
    **dict.fromkeys(("Int32", "UInt32", "Float32", "Date32", "DateTime", "IPv4", "Time"), 4),
    **dict.fromkeys(("Int64", "UInt64", "Float64", "DateTime64", "Time64"), 8),
    **dict.fromkeys(("Int128", "UInt128", "UUID", "IPv6"), 16),
    **dict.fromkeys(("Int256", "UInt256"), 32),
}
_DECIMAL_WIDTHS: Final = ((9, 4), (18, 8), (38, 16), (76, 32))  # up to so many digits
_ALIASES: Final = {
    "Point": "Tuple(Float64, Float64)",
    "Ring": "Array(Point)",
    "LineString": "Array(Point)",
    "Polygon": "Array(Ring)",
    "MultiLineString": "Array(LineString)",
    "MultiPolygon": "Array(Polygon)",
}
_PIECE: Final = re.compile(r"'(?:[^'\\]|\\.|'')*'|`(?:[^`\\]|\\.)*`|[(),]|[^'`(),]+", re.DOTALL)
_NAMED: Final = re.compile(r"(?:`(?:[^`\\]|\\.)*`|[A-Za-z_]\w*)\s+(?=[A-Z])", re.DOTALL)
_KEY_WIDTH: Final = 0xFF  # of a LowCardinality's flags: the power of two of its keys' width


@dataclass(frozen=True, slots=True)
class Kind:
    """A column's type: its name, and what stands in its brackets."""

    name: str
    inner: tuple[str, ...]

    def part(self, i: int = -1) -> "Kind":
        """Return the i-th type in the brackets, without a name before it."""
        return kind_of(_NAMED.sub("", self.inner[i], count=1))

    def parts(self) -> list["Kind"]:
        """Return all types in the brackets."""
        return [self.part(i) for i in range(len(self.inner))]


@lru_cache(maxsize=1024)
def kind_of(text: str) -> Kind:
    """Read a type such as `Array(Tuple(a Int8, b String))`."""
    name, bracket, rest = text.strip().partition("(")
    if not bracket:
        return kind_of(_ALIASES[name]) if name in _ALIASES else Kind(name, ())
    inner, depth = [""], 0
    for piece in _PIECE.findall(rest[: rest.rindex(")")]):
        if piece == "," and not depth:
            inner.append("")
        else:
            depth += (piece == "(") - (piece == ")")
            inner[-1] += piece
    return Kind(name, tuple(part.strip() for part in inner))


def for_revision(data: bytes) -> bytes:
    """Return whole Native blocks in the form of revision 54454.

    Raises `QueryError` for a type whose layout is not known here.
    """
    parts: list[bytes] = []
    at = 0
    while at < len(data):
        start = at
        columns, at = _number(data, at)
        rows, at = _number(data, at)
        parts += (_BLOCK_INFO, data[start:at])
        for _ in range(columns):
            start, at = at, _text_end(data, at)
            type_at, at = at, _text_end(data, at)
            _, name_at = _number(data, type_at)
            parts += (data[start:at], _PLAIN_SERIALIZATION)
            start, at = at, _column_end(data, at, kind_of(data[name_at:at].decode()), rows)
            parts.append(data[start:at])
    return b"".join(parts)


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return the LEB128 number at a place, and where it ends."""
    value, shift = 0, 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return value, at


def _text_end(data: bytes, at: int) -> int:
    size, at = _number(data, at)
    return at + size


def _word(data: bytes, at: int) -> int:
    word: int = struct.unpack_from("<Q", data, at)[0]
    return word


def _column_end(data: bytes, at: int, kind: Kind, rows: int) -> int:
    return _values_end(data, at + 8 * _prefixes(kind), kind, rows) if rows else at


def _prefixes(kind: Kind) -> int:
    """Return how many 8-byte prefixes the type writes: one for each LowCardinality in it."""
    if kind.name == "LowCardinality":
        return 1
    if kind.name in ("Array", "Nullable", "Tuple", "Map", "Nested", "SimpleAggregateFunction"):
        parts = [kind.part()] if kind.name == "SimpleAggregateFunction" else kind.parts()
        return sum(map(_prefixes, parts))
    return 0


def _values_end(data: bytes, at: int, kind: Kind, rows: int) -> int:
    if kind.name == "String":
        for _ in range(rows):
            at = _text_end(data, at)
        return at
    if kind.name == "Nullable":
        return _values_end(data, at + rows, kind.part(), rows)
    if kind.name == "SimpleAggregateFunction":
        return _values_end(data, at, kind.part(), rows)
    if kind.name == "LowCardinality":
        return _keys_end(data, at, kind.part())
    if kind.name == "Tuple":
        return _all_end(data, at, kind, rows)
    if kind.name in ("Array", "Map", "Nested"):
        at += 8 * rows
        return _all_end(data, at, kind, _word(data, at - 8) if rows else 0)
    return at + rows * _width(kind)


def _all_end(data: bytes, at: int, kind: Kind, rows: int) -> int:
    for part in kind.parts():
        at = _values_end(data, at, part, rows)
    return at


def _keys_end(data: bytes, at: int, kind: Kind) -> int:
    """Skip a LowCardinality: flags, the dictionary and its size, the keys and their number."""
    width = 1 << (_word(data, at) & _KEY_WIDTH)
    plain = kind.part() if kind.name == "Nullable" else kind
    at = _values_end(data, at + 16, plain, _word(data, at + 8))
    return at + 8 + width * _word(data, at)


def _width(kind: Kind) -> int:
    if kind.name in _WIDTHS:
        return _WIDTHS[kind.name]
    if kind.name.startswith("Interval"):
        return 8
    if kind.name == "FixedString":
        return int(kind.inner[0])
    if kind.name == "Decimal":
        return next(width for digits, width in _DECIMAL_WIDTHS if int(kind.inner[0]) <= digits)
    raise refusal(48, f"Native with a protocol version does not work for {kind.name}: use JSON.")
