"""Journal entries as `wire.encode` writes them, in less time: a decision's numbers all at once.

A decision holds some 1 500 numbers, in columns of the same length. They are written here with a few
calls of NumPy and put into the bytes of the same entry without tenants.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from tokenweir.core.terms import Ints
from tokenweir.records.journal import DecisionEntry, JournalEntry, TenantFigures
from tokenweir.records.spec import RANK
from tokenweir.wire import encode

COLUMNS = tuple(TenantFigures.__dataclass_fields__)[2:]  # behind tenants and their classes
NOBODY = TenantFigures((), (), *(() for _ in COLUMNS))
MARK = "\0tenants\0"  # stands in the place of all tenants
MARKED = b"\x02\x12" + MARK.encode() + b"\0" * (2 + len(COLUMNS))


def encode_entry(entry: JournalEntry) -> bytes:
    """The entry as bytes, written with the newest version of its schema."""
    figures = entry.body.tenants if isinstance(entry.body, DecisionEntry) else NOBODY
    rows = len(figures.tenant)
    columns = [getattr(figures, name) for name in COLUMNS]
    full = [column for column in columns if len(column)]
    # Columns that are left out come last.
    if not rows or any(len(column) for column in columns[len(full) :]):
        return encode(entry)
    assert isinstance(entry.body, DecisionEntry)
    marked = replace(entry.body, tenants=replace(NOBODY, tenant=[MARK]))
    before, _, behind = encode(replace(entry, body=marked)).partition(MARKED)
    head = _number(2 * rows)
    classes = bytes([2 * RANK[name] for name in figures.service_class])
    arrays = _arrays(full)
    if arrays is None:
        return encode(entry)
    parts = (
        *(before, head, *map(_string, figures.tenant), b"\0", head, classes, b"\0"),
        *(arrays, b"\0" * (len(columns) - len(full)), behind),
    )
    return b"".join(parts)


def _arrays(columns: Sequence[Sequence[int]]) -> bytes | None:
    """Columns of the same length as Avro's arrays of numbers; None for the very large ones."""
    values = np.array(columns, dtype=np.int64)
    coded = np.zeros((len(columns), values.shape[1] + 2), dtype=np.int64)
    coded[:, 0] = 2 * values.shape[1]  # the length in front, a 0 behind
    coded[:, 1:-1] = values << 1 ^ values >> 63
    return None if int(coded.min()) < 0 else _numbers(coded.reshape(-1))


def _numbers(coded: Ints) -> bytes:
    """Numbers, zig-zag coded already, in groups of seven bits; each but the last adds 128."""
    groups = max(-(-int(coded.max()).bit_length() // 7), 1)
    rest = coded[:, None] >> np.arange(0, 7 * groups, 7)
    kept = rest > 0
    kept[:, 0] = True
    groups_: Ints = rest & 127 | (rest > 127) << 7
    return groups_.astype(np.uint8)[kept].tobytes()


@lru_cache(maxsize=4_096)
def _number(coded: int) -> bytes:
    return _numbers(np.array([coded], dtype=np.int64))


@lru_cache(maxsize=65_536)
def _string(text: str) -> bytes:
    value = text.encode()
    return _number(2 * len(value)) + value
