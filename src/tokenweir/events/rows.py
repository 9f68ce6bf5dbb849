"""A partition's gathering as rows of bytes, and back; only what changed is written again.

`pools` holds what is small and changes with every event, `seen-…` the hashes of a stretch of the
log, `open-…` the attempts that may say more. The same state gives the same bytes.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import astuple
from struct import Struct, pack, unpack
from typing import Any

from tokenweir.events.gather import Flow, Gathering
from tokenweir.events.memory import BUCKETS, CHUNKS, Attempt, Bucket, Memory
from tokenweir.gateway.rows import Row

POOLS = "pools"
OPEN = Struct("<Qqqqqq??Bq")  # a hash, then the fields of an `Attempt`


def changed_rows(state: Gathering) -> dict[str, bytes]:
    """The rows that differ from those of the last call of `stored`."""
    memory = state.memory
    rows = {POOLS: _pools_row(state)}
    for place in sorted(memory.changed_buckets):
        rows[f"seen-{place:02}"] = _bucket_row(memory.buckets[place])
    for chunk in sorted(memory.changed_chunks):
        rows[f"open-{chunk:02}"] = b"".join(_open_rows(memory, chunk))
    return rows


def stored(state: Gathering) -> None:
    """Take note that the changed rows are safe."""
    state.memory.changed_buckets.clear()
    state.memory.changed_chunks.clear()


def from_rows(rows: Mapping[str, bytes]) -> Gathering:
    """The gathering that these rows hold; rows that are missing are empty, but for `pools`.

    Raises `LookupError`, `ValueError` or `TypeError` for rows that this version cannot read.
    """
    content = json.loads(rows[POOLS])
    memory = Memory(newest=content["bucket"], forgotten=content["forgotten"])
    for place in range(BUCKETS):
        if (row := rows.get(f"seen-{place:02}")) is not None:
            memory.buckets[place] = _bucket(row)
            memory.known.update(memory.buckets[place].hashes)
    found = [pair for chunk in range(CHUNKS) for pair in _opened(rows.get(f"open-{chunk:02}", b""))]
    memory.open = dict(sorted(found, key=lambda pair: pair[1].touched_ms))
    return Gathering(
        content["gateway"],
        {name: _flow(*flow) for name, flow in content["pools"].items()},
        memory,
        Counter(content["counts"]),
        content["clock_ms"],
        content["cut_ms"],
    )


def _pools_row(state: Gathering) -> bytes:
    content = {
        "gateway": state.gateway,
        "clock_ms": state.clock_ms,
        "cut_ms": state.cut_ms,
        "bucket": state.memory.newest,
        "forgotten": state.memory.forgotten,
        "counts": dict(sorted(state.counts.items())),
        "pools": {
            name: (flow.sequence, flow.newest_ms, flow.rows) for name, flow in state.pools.items()
        },
    }
    return json.dumps(content, separators=(",", ":")).encode()


def _flow(sequence: int, newest_ms: int, rows: list[list[Any]]) -> Flow:
    return Flow(sequence, newest_ms, [_row(*row) for row in rows])


def _row(*values: Any) -> Row:
    return values  # as it was written


def _bucket_row(bucket: Bucket) -> bytes:
    return pack(f"<q{len(bucket.hashes)}Q", bucket.started_ms, *bucket.hashes)


def _bucket(row: bytes) -> Bucket:
    started_ms, *hashes = unpack(f"<q{len(row) // 8 - 1}Q", row)
    return Bucket(started_ms, hashes)


def _open_rows(memory: Memory, chunk: int) -> Iterator[bytes]:
    for key, attempt in memory.open.items():
        if key % CHUNKS == chunk:
            yield OPEN.pack(key, *astuple(attempt))


def _opened(row: bytes) -> Iterator[tuple[int, Attempt]]:
    for key, *fields in OPEN.iter_unpack(row):
        yield key, Attempt(*fields)
