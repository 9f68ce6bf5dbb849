"""Journal entries as `wire.encode` writes them, in less time: a decision's numbers all at once.

A decision holds some 1 500 numbers, in columns of the same length. They are written here with a few
calls of NumPy and put into the bytes of the same entry without tenants.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter

import numpy as np

from tokenweir.core.terms import Ints
from tokenweir.records.journal import DecisionEntry, JournalEntry, TenantFigures
from tokenweir.records.spec import RANK, ServiceClass
from tokenweir.wire import encode

COLUMNS = tuple(TenantFigures.__dataclass_fields__)[2:]  # behind tenants and their classes
READ = attrgetter(*COLUMNS)
MARK = "\0tenants\0"  # stands in the place of all tenants
NOBODY = TenantFigures((MARK,), (), *(() for _ in COLUMNS))
MARKED = b"\x02\x12" + MARK.encode() + b"\0" * (2 + len(COLUMNS))


def encode_entry(entry: JournalEntry) -> bytes:
    """The entry as bytes, written with the newest version of its schema."""
    if not isinstance(entry.body, DecisionEntry):
        return encode(entry)
    figures = entry.body.tenants
    columns = READ(figures)
    full = [column for column in columns if column]
    # Columns that are left out come last.
    if not figures.tenant or any(columns[len(full) :]):
        return encode(entry)
    arrays = _arrays(full)
    if arrays is None:
        return encode(entry)
    marked = replace(entry, body=replace(entry.body, tenants=NOBODY))
    before, _, behind = encode(marked).partition(MARKED)
    names = _names(tuple(figures.tenant), tuple(figures.service_class))
    return b"".join((before, names, arrays, b"\0" * (len(columns) - len(full)), behind))


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
    more = rest > 127
    kept = np.ones(rest.shape, dtype=np.bool_)
    kept[:, 1:] = more[:, :-1]
    written = rest.astype(np.uint8) & 127 | more.view(np.uint8) << 7
    return written[kept].tobytes()


@lru_cache(maxsize=256)  # from one decision to the next they are mostly the same
def _names(tenants: Sequence[str], classes: Sequence[ServiceClass]) -> bytes:
    """The two columns in front."""
    head = _number(2 * len(tenants))
    ranks = bytes([2 * RANK[name] for name in classes])
    return b"".join((head, *map(_string, tenants), b"\0", head, ranks, b"\0"))


def _string(text: str) -> bytes:
    value = text.encode()
    return _number(2 * len(value)) + value


def _number(coded: int) -> bytes:
    return _numbers(np.array([coded], dtype=np.int64))
