"""The tables and the worked example of `docs/wire.md`, from the schemas.

`python -m tests.unit.wire_tables` puts them between the page's markers; a test sees to it that
somebody did.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.pools import report
from tokenweir.wire import encode, schema_fingerprint, schemas

PAGE = Path(__file__).parents[2] / "docs" / "wire.md"
BEGIN, END = "<!-- from the schemas: {} -->\n", "<!-- end -->"
# What a gateway reads and writes; then the rest of the topics' records.
GATEWAY = ("UsageReport", "RequestsBlock", "ControlDecision", "GatewayLeases", "Barred", "Roster")
OTHERS = (
    "PoolSpec",
    "CapacityReport",
    "QuotaCeiling",
    "PoolSpend",
    "Event",
    "JournalEntry",
    "DeadLetter",
)
EXAMPLE = report("gw-1", 1, {"acme": 300}, age_ms=5)
# Each line of the example: what it is, and how many bytes of the encoded record it takes.
LINES = (
    ("marker", 2),
    ("fingerprint of UsageReport.v1, little endian", 8),
    ('pool: 4 bytes, "chat"', 5),
    ('gateway: 4 bytes, "gw-1"', 5),
    ("sequence 1 (a long n is zigzag: 2n, or -2n - 1 when negative)", 1),
    ("applied 0: no decision is obeyed yet", 1),
    ("closing false, more false", 2),
    ("age_ms 5", 1),
    ('totals.names: a block of 1 item, "acme"; a block of 0 ends the array', 7),
    ("tenant: [0], an index into names", 3),
    ("user: [0]", 3),
    ("age_ms: [0]", 3),
    ("requests: [1]", 3),
    ("errors, tokens_uncached, tokens_cached: empty, so all zeros", 3),
    ("tokens_out: [300]; 600 = 0x258 is D8 04 in groups of 7 bits, low ones first", 4),
    ("refused: [0], refused_tokens: [0]", 6),
    ("wait_ms, in_flight: empty", 2),
    ("sequences: [0]", 3),
    ("kv_bytes, held_tokens: empty", 2),
    ("queued: [0], queued_tokens: [0]", 6),
    ("requests: 0 bytes", 1),
)


def newest() -> dict[str, tuple[int, dict[str, Any]]]:
    """The newest version of each schema, by name."""
    return {name: (version, schema) for name, version, schema in schemas()}


def example() -> str:
    """The worked example: the bytes of one small report, a line for each part."""
    data, lines = encode(EXAMPLE), []
    for text, size in LINES:
        part, data = data[:size], data[size:]
        lines.append(f"{part.hex(' ').upper():<23}  {text}")
    if data:
        raise ValueError(f"{len(data)} bytes of the example are not explained")
    return "```\n" + "\n".join(lines) + "\n```\n"


def fingerprints() -> str:
    """The eight bytes that name each schema, as they stand on the wire."""
    rows = [
        f"| {name} | {version} | `{schema_fingerprint(schema).hex(' ').upper()}` |"
        for name, (version, schema) in newest().items()
        if name in (*GATEWAY, *OTHERS)
    ]
    return "\n".join(("| record | version | fingerprint |", "|---|---|---|", *rows, ""))


def tables(names: tuple[str, ...]) -> str:
    """A table for each of these records and for what is in it; nothing twice."""
    seen: set[str] = set()
    return "\n".join(part for name in names for part in _record(newest()[name][1], seen, 3))


def _record(schema: dict[str, Any], seen: set[str], level: int) -> Iterator[str]:
    seen.add(schema["name"])
    yield f"{'#' * level} {schema['name']}\n\n{schema['doc']}\n"
    yield "| field | type | meaning |\n|---|---|---|"
    inside: list[dict[str, Any]] = []
    for field in schema["fields"]:
        yield f"| {field['name']} | {_type(field['type'], inside)} | {field['doc']} |"
    yield ""
    for part in inside:
        if part["name"] not in seen and part["type"] == "record":
            yield from _record(part, seen, level + 1)
        elif part["name"] not in seen:
            seen.add(part["name"])
            symbols = ", ".join(f"{n} `{symbol}`" for n, symbol in enumerate(part["symbols"]))
            yield f"{part['name']}, an enum: {symbols}. {part['doc']}\n"


def _type(schema: Any, inside: list[dict[str, Any]]) -> str:
    if isinstance(schema, str):
        return schema
    if isinstance(schema, list):
        return " or ".join(_type(branch, inside) for branch in schema)
    if schema["type"] == "array":
        return f"array of {_type(schema['items'], inside)}"
    if schema["type"] == "map":
        return f"map of {schema['values']}"
    inside.append(schema)
    return str(schema["name"])


def page(text: str) -> str:
    """The page's text with everything between the markers as the schemas have it now."""
    parts = {
        "example": example(),
        "fingerprints": fingerprints(),
        "gateway": tables(GATEWAY),
        "others": tables(OTHERS),
    }
    for name, part in parts.items():
        begin = BEGIN.format(name)
        before, rest = text.split(begin)
        text = before + begin + part + END + rest.split(END, 1)[1]
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
