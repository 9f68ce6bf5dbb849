"""Encode and decode the records of the wire: Avro, each with its schema's fingerprint in front.

The form is Avro's single-object encoding: two marker bytes, the CRC-64-AVRO fingerprint of the
writer's schema (8 bytes, little endian), then the record. So a reader sees at once whether it knows
the schema, and resolves records of older writers to the newest one. Untyped values stop here.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from io import BytesIO
from operator import attrgetter
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from fastavro import parse_schema, schemaless_reader, schemaless_writer
from fastavro.schema import fingerprint, to_parsing_canonical_form

from tokenweir.errors import BadRecord, UnknownSchema
from tokenweir.records.control import Barred, ControlDecision, GatewayLeases, Roster
from tokenweir.records.event import Event
from tokenweir.records.journal import DeadLetter, JournalEntry
from tokenweir.records.rows import BlockRow, GatewayRow, PoolRow, QuotaRow, SharedRow
from tokenweir.records.spec import PoolSpec
from tokenweir.records.usage import (
    CapacityReport,
    PoolSpend,
    QuotaCeiling,
    RequestsBlock,
    UsageReport,
)

MARKER = b"\xc3\x01"
HEADER = 10  # bytes: the marker and the fingerprint

RECORDS: tuple[type, ...] = (
    UsageReport,
    RequestsBlock,
    PoolSpec,
    CapacityReport,
    QuotaCeiling,
    PoolSpend,
    Event,
    ControlDecision,
    GatewayLeases,
    Barred,
    Roster,
    JournalEntry,
    DeadLetter,
    PoolRow,
    GatewayRow,
    BlockRow,
    QuotaRow,
    SharedRow,
)
R = TypeVar("R")


def encode(record: object) -> bytes:
    """One record of the wire as bytes, written with the newest version of its schema."""
    head, schema = _writers()[type(record)]
    out = BytesIO(head)
    out.seek(HEADER)
    schemaless_writer(out, schema, _plain(record))
    return out.getvalue()


def head_of(kind: type) -> bytes:
    """What a record begins with that is written with the newest version of its schema."""
    return _writers()[kind][0]


def schema_of(kind: type) -> Any:
    """The newest version of a record's schema, parsed."""
    return _writers()[kind][1]


def decode(data: bytes | None) -> Any:
    """The record in `data`, of whichever kind it is.

    Raises `UnknownSchema` for a fingerprint that this version does not know, and `BadRecord` for
    bytes that are not one whole record.
    """
    if data is None:
        raise BadRecord("the value is null")
    if data[:2] != MARKER or len(data) < HEADER:
        raise BadRecord("not an Avro single-object record: the marker C3 01 is missing")
    found = _readers().get(data[2:HEADER])
    if found is None:
        raise UnknownSchema(data[2:HEADER])
    kind, writer, reader = found
    body = BytesIO(data)
    body.seek(HEADER)
    try:
        raw = schemaless_reader(body, writer, reader, return_record_name=True)
    except Exception as error:  # fastavro raises whatever the bytes provoke
        raise BadRecord(f"cannot be read as {kind.__name__}: {error!r}") from error
    if body.tell() != len(data):
        raise BadRecord(f"{len(data) - body.tell()} bytes behind the {kind.__name__}")
    return _value(kind, raw)


def decode_as(kind: type[R], data: bytes | None) -> R:
    """The record in `data`, which must be a `kind`; raises `BadRecord` when it is another."""
    record = decode(data)
    if not isinstance(record, kind):
        raise BadRecord(f"expected {kind.__name__}, found {type(record).__name__}")
    return record


def schemas() -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Name, version and schema of every file in `schemas/`, oldest version first."""
    found = [file for file in _folder().iterdir() if file.name.endswith(".avsc")]
    for file in sorted(found, key=lambda file: (file.name.split(".")[0], _version(file.name))):
        schema = json.loads(file.read_text(encoding="utf-8"))
        yield file.name.split(".")[0], _version(file.name), schema


def schema_fingerprint(schema: dict[str, Any]) -> bytes:
    """The 8 bytes, little endian, that name a schema on the wire (CRC-64-AVRO)."""
    return bytes.fromhex(fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))


def _version(name: str) -> int:
    return int(name.split(".")[1].removeprefix("v"))


def _folder() -> Traversable:
    # In the wheel the schemas lie inside the package, in a checkout at the top.
    installed = files("tokenweir") / "schemas"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "schemas"


@cache
def _newest() -> dict[str, Any]:
    return {name: parse_schema(schema) for name, _, schema in schemas()}


@cache
def _writers() -> dict[type, tuple[bytes, Any]]:
    raw = {name: schema for name, _, schema in schemas()}
    return {
        kind: (MARKER + schema_fingerprint(raw[kind.__name__]), _newest()[kind.__name__])
        for kind in RECORDS
    }


@cache
def _readers() -> dict[bytes, tuple[type, Any, Any]]:
    kinds = {kind.__name__: kind for kind in RECORDS}
    newest = _newest()
    readers = {}
    for name, _, schema in schemas():
        writer = parse_schema(schema)
        # fastavro is twice as fast where it has nothing to resolve.
        same = schema_fingerprint(schema) == _writers()[kinds[name]][0][2:]
        readers[schema_fingerprint(schema)] = (kinds[name], writer, None if same else newest[name])
    return readers


def _plain(value: Any) -> dict[str, Any]:
    """What fastavro writes: dicts for our records, lists for columns, (name, dict) in unions."""
    kind = cast(type, type(value))
    plain = dict(zip(_names(kind), _read(kind)(value), strict=True))
    for name, (choices, many) in _nested(kind).items():
        part = plain[name]
        if many:
            plain[name] = [_plain(item) for item in part]
        elif part is not None:
            inside = _plain(part)
            full = f"tokenweir.{type(part).__name__}"
            plain[name] = (full, inside) if len(choices) > 1 else inside
    return plain


def _value(kind: type, raw: Any) -> Any:
    built = _nested(kind)
    if not built:
        return kind(**raw)
    for name, (choices, many) in built.items():
        part = raw[name]
        if many:
            raw[name] = tuple(_value(choices[0], item) for item in part)
        elif isinstance(part, dict):
            raw[name] = _value(choices[0], part)
        elif part is not None:  # a union: fastavro names the record
            record, fields_ = part
            chosen = next(c for c in choices if record.endswith(f".{c.__name__}"))
            raw[name] = _value(chosen, fields_)
    return kind(**raw)


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


@cache
def _read(kind: type) -> Callable[[Any], tuple[Any, ...]]:
    """Reads all fields of a record in one call."""
    return attrgetter(*_names(kind))


@cache
def _nested(kind: type) -> dict[str, tuple[tuple[type, ...], bool]]:
    """Which fields of `kind` hold records: the possible types, and whether there are many."""
    nested = {}
    for name, hint in get_type_hints(kind).items():
        inside = get_args(hint) if get_origin(hint) is not None else (hint,)
        choices = tuple(cast(type, part) for part in inside if is_dataclass(part))
        if choices:
            many = get_origin(hint) is not UnionType and get_origin(hint) is not None
            nested[name] = (choices, many)
    return nested
