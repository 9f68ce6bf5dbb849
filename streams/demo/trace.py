"""Published traces as a load: each file is a tenant, lengths and arrivals are the trace's.

Two forms are read, gzip or not, told apart by their first line:

- Azure LLM inference traces: CSV with TIMESTAMP, ContextTokens, GeneratedTokens.
- Mooncake traces: JSON lines with timestamp (ms), input_length, output_length, hash_ids. A leading
  run of blocks (512 tokens each) that the file has shown before counts as served by the cache.
"""

import csv
import gzip
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from streams.demo.arrivals import Arrival
from tokenweir.errors import BadInput

BLOCK_TOKENS = 512  # of one hash of a Mooncake trace, says its README
AZURE = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


@dataclass(frozen=True, slots=True)
class Line:
    """One request as the trace has it."""

    at_s: float  # since 1970 in dated traces, since the file's start in others
    uncached: int
    cached: int
    out: int


def read_traces(paths: Sequence[Path], speed: float) -> tuple[Arrival, ...]:
    """All requests of the files in the order of their times, `speed` times as fast as they came.

    Files with dates keep their distance from each other. Raises `BadInput` naming file, line,
    value and what is allowed.
    """
    arrivals: list[Arrival] = []
    starts = _starts(files := [_read(path) for path in paths])
    for tenant, lines, start_s in zip(tenants_of(paths), files, starts, strict=True):
        for line in lines:
            at_us = round((line.at_s - start_s) / speed * 1e6)
            arrivals.append(Arrival(at_us, tenant, "trace", line.uncached, line.cached, line.out))
    return tuple(sorted(arrivals, key=lambda arrival: arrival.at_us))


def tenants_of(paths: Sequence[Path]) -> list[str]:
    """The tenant's name of each file: `AzureLLMInferenceTrace_code.csv.gz` is `code`."""
    names = [_tenant_of(path) for path in paths]
    nth = [names[:at].count(name) + 1 for at, name in enumerate(names)]
    return [name if n == 1 else f"{name}-{n}" for name, n in zip(names, nth, strict=True)]


def _tenant_of(path: Path) -> str:
    stem = path.name.split(".")[0]
    words = [word for word in re.split(r"[^A-Za-z0-9]+", stem) if "trace" not in word.lower()]
    return "-".join(word.lower() for word in words if word) or stem


def _starts(files: Sequence[Sequence[Line]]) -> list[float]:
    """The moment of each file that is the load's start: one for all that have dates."""
    firsts = [min((line.at_s for line in lines), default=0.0) for lines in files]
    dated = [first for first in firsts if first > 1e9]
    return [min(dated) if first > 1e9 else first for first in firsts]


def _read(path: Path) -> list[Line]:
    try:
        with _open(path) as file:
            first = file.readline().lstrip("\ufeff")
            return list(_form_of(path, first)(path, first, file))
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: cannot be read: {error}") from error


def _open(path: Path) -> IO[str]:
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rt", encoding="utf-8") if packed else path.open(encoding="utf-8")


Form = Callable[[Path, str, IO[str]], Iterator[Line]]


def _form_of(path: Path, first: str) -> Form:
    if first.startswith("{"):
        return _mooncake
    if set(AZURE) <= set(first.strip().split(",")):
        return _azure
    raise BadInput(
        f"{path}: line 1 is {first[:80].strip()!r}: a header with {', '.join(AZURE)} (Azure) or a"
        " JSON object (Mooncake) is allowed"
    )


def _azure(path: Path, header: str, file: IO[str]) -> Iterator[Line]:
    rows = csv.DictReader(file, fieldnames=header.strip().split(","))
    for number, row in enumerate(rows, start=2):
        try:
            yield Line(
                _seconds(row["TIMESTAMP"]),
                _tokens(row["ContextTokens"]),
                0,
                _tokens(row["GeneratedTokens"]),
            )
        except (TypeError, ValueError) as error:
            raise BadInput(f"{path}: line {number}: {error}") from error


def _mooncake(path: Path, first: str, file: IO[str]) -> Iterator[Line]:
    seen: set[int] = set()
    for number, text in enumerate(_with(first, file), start=1):
        try:
            yield _from_json(json.loads(text), seen)
        except (TypeError, ValueError, KeyError) as error:
            raise BadInput(f"{path}: line {number}: {error!r} in {text[:80].strip()!r}") from error


def _from_json(row: dict[str, object], seen: set[int]) -> Line:
    tokens, blocks = _tokens(row["input_length"]), row["hash_ids"]
    if not isinstance(blocks, list):
        raise ValueError(f"hash_ids={blocks!r}: a list of numbers is allowed")
    cached = min(_known(blocks, seen) * BLOCK_TOKENS, tokens)
    seen.update(blocks)
    at_ms = _tokens(row["timestamp"])
    return Line(at_ms / 1000, tokens - cached, cached, _tokens(row["output_length"]))


def _known(blocks: Sequence[int], seen: set[int]) -> int:
    """How many blocks at the beginning were seen before: a cache serves prefixes only."""
    return next((at for at, block in enumerate(blocks) if block not in seen), len(blocks))


def _with(first: str, rest: IO[str]) -> Iterator[str]:
    yield first
    yield from (line for line in rest if line.strip())


def _tokens(value: object) -> int:
    """A count as text or number; what it is not, is an error that says so."""
    if isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise ValueError(f"{value!r}: a whole number of at least 0 is allowed")


def _seconds(text: str) -> float:
    """Seconds since 1970 of a stamp; without a zone it is UTC. Seven fractional digits are fine."""
    stamp = datetime.fromisoformat(text.strip())
    return (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp()
