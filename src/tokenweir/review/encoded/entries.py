"""A decision's journal entry as `wire.encode` writes it, in less time: all its numbers at once.

An entry holds some 1 500 numbers, most of them figures of tenants. Those need not become columns of
a record before they are written.
"""

from functools import cache

import numpy as np

from tokenweir.core.figures import Shown
from tokenweir.core.publish import Decided
from tokenweir.core.terms import Ints
from tokenweir.records.journal import JournalEntry
from tokenweir.review.encoded.flat import (
    Flat,
    Put,
    put_names,
    put_number,
    put_numbers,
    put_text,
    putters,
    written,
)
from tokenweir.wire import encode, head_of, schema_of

DECISION = 0  # the place of decisions among the bodies of an entry


def encode_decided(decided: Decided) -> bytes:
    """The decision's entry, the first of `decided.entries`, as bytes of the newest schema."""
    put, flat = _putters(), Flat()
    now, grounds = decided.decision, decided.grounds
    put_text(now.pool, flat)
    put_number(now.at_ms, flat)
    put_text(now.id, flat)
    put_number(DECISION, flat)
    put["decision"](now, flat)
    put_names(grounds.tenants.names, flat)
    place = len(flat.numbers)  # of the tenants' columns
    put_numbers(grounds.tenants.sequences, flat)
    put_numbers(grounds.tenants.kv_bytes, flat)
    put["gateways"](grounds.gateways, flat)
    flat.numbers += (grounds.used, grounds.budget, grounds.total)
    put["quotas"](grounds.quotas, flat)
    try:
        return head_of(JournalEntry) + _written(flat, place, _columns(grounds.tenants))
    except OverflowError:  # no rate is so large, but what a gateway tells may be
        return encode(decided.entries[0])


@cache
def _putters() -> dict[str, Put]:
    """What puts the parts of a decision's entry."""
    *_, body = schema_of(JournalEntry)["fields"]
    return putters(body["type"][DECISION])


def _written(flat: Flat, place: int, columns: Ints) -> bytes:
    numbers = np.array(flat.numbers, dtype=np.int64)
    texts = [
        (count if count <= place else count + len(columns), text) for count, text in flat.texts
    ]
    return written(np.concatenate((numbers[:place], columns, numbers[place:])), texts)


def _columns(tenants: Shown) -> Ints:
    """The columns of classes and figures, each an array of numbers: a length in front, a 0 behind.

    Classes are symbols in the order of their ranks.
    """
    rows, count = tenants.values.shape
    if not count:
        return np.zeros(rows + 1, dtype=np.int64)
    columns = np.zeros((rows + 1, count + 2), dtype=np.int64)
    columns[:, 0] = count
    columns[0, 1:-1] = tenants.ranks
    columns[1:, 1:-1] = tenants.values
    return columns.reshape(-1)
