"""What the bytes of a record are, as far as this version can tell."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any

from tokenweir import wire
from tokenweir.errors import BadRecord

SHOWN_BYTES = 48


@dataclass(frozen=True, slots=True)
class Contents:
    """The form of some bytes in words, and what they hold where that can be read."""

    form: str
    schema: str  # name and version, empty where it is not known
    record: Any  # a record of ours, a JSON object, or None
    problem: str  # why it cannot be read whole

    @property
    def pool(self) -> str:
        """The pool that it names; empty where it names none."""
        held = self.record
        named = held.get("pool") if isinstance(held, dict) else getattr(held, "pool", "")
        return named if isinstance(named, str) else ""

    @property
    def kind(self) -> str:
        """One word for lists."""
        if self.schema:
            return self.schema.split(" ")[0]
        return "JSON" if isinstance(self.record, dict) else "?"


def contents(value: bytes | None) -> Contents:
    """Look into a value."""
    if value is None:
        return Contents("null: a tombstone, or left where it is", "", None, "there are no bytes")
    size = f"{len(value)} bytes"
    if value[:2] == wire.MARKER and len(value) >= wire.HEADER:
        return _avro(value, size)
    text = _json(value)
    if text is not None:
        return Contents(f"{size} of JSON", "", text, "")
    begin = value[:SHOWN_BYTES].hex(" ")
    more = " …" if len(value) > SHOWN_BYTES else ""
    return Contents(f"{size}: {begin}{more}", "", None, "neither Avro with our marker nor JSON")


def plain(value: Any) -> Any:
    """A record as JSON has it; bytes that hold a record of ours are opened, others are hex."""
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, bytes):
        inside = contents(value).record if value[:2] == wire.MARKER else None
        return value.hex() if inside is None else plain(inside)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(item) for item in value]
    return value


def _avro(value: bytes, size: str) -> Contents:
    fingerprint = value[2 : wire.HEADER]
    form = f"{size} of Avro, schema {fingerprint.hex(' ').upper()}"
    name = _names().get(fingerprint)
    if name is None:
        return Contents(form, "", None, "this version does not know the schema")
    try:
        return Contents(f"{form}, {name}", name, wire.decode(value), "")
    except BadRecord as error:
        return Contents(f"{form}, {name}", name, None, str(error))


def _json(value: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


@cache
def _names() -> Mapping[bytes, str]:
    return {
        wire.schema_fingerprint(schema): f"{name} v{version}"
        for name, version, schema in wire.schemas()
    }
