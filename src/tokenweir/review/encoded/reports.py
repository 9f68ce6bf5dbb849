"""Reports read into columns, all numbers of all reports at once.

The bytes are Avro's: a number is zig-zag coded in groups of seven bits, the lowest first, and ends
with the first byte below 128. What this does not know (another version of the schema, arrays in
several blocks, whatever is odd or too large) it leaves to those who read one record after the other
and say what is wrong. The block of requests is passed over: only history reads it.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from tokenweir.core.fold import COLUMNS, HIGHEST, LOWEST, MOST_AGE_MS
from tokenweir.core.sheet import Heading, Sheet
from tokenweir.core.terms import Bools, Ints
from tokenweir.records.usage import RequestsBlock, UsageReport
from tokenweir.review.encoded.names import places, read_names
from tokenweir.review.encoded.numbers import LONGEST, Numbers, number
from tokenweir.usage_log import Message
from tokenweir.wire import head_of

ARRAYS = ("tenant", "user", *COLUMNS)  # of numbers
BOUNDS = dict(zip(COLUMNS, zip(LOWEST[:, 0], HIGHEST[:, 0], strict=True), strict=True))
BLOCK = head_of(RequestsBlock)  # what is behind it needs no look
HEADING = 6  # numbers: sequence, applied, closing, more, age, and how many names follow
MAX = np.iinfo(np.int64).max
LEAST, MOST = np.array([[1, 0, -1, -1, 0, 0], [MAX, MAX, 0, 0, MOST_AGE_MS, MAX]])[:, :, None]
NO_ROWS = np.zeros(0, dtype=np.int64)


class _Odd(Exception):
    """These bytes are read one record after the other."""


class _Reader:
    """What is read of each report before all of their numbers are."""

    def __init__(self) -> None:
        self.names: list[bytes] = []
        self.tails: list[bytes] = []  # from the length of the first array of numbers on
        self.blocks: list[int] = []  # how many bytes of their blocks are left out

    def add(self, value: bytes, at: int, count: int) -> None:
        """Read the names, which begin at a place."""
        if count:
            names, at = read_names(value, at, count)
            if value[at]:  # another block of them
                raise _Odd
            self.names += names
            at += 1
        end = value.find(BLOCK, at)
        end = len(value) if end < 0 else end
        self.tails.append(value[at:end])
        self.blocks.append(len(value) - end)


class _Arrays:
    """Where each report's arrays lie; matrices of shape (arrays, reports)."""

    def __init__(self, numbers: Numbers, blocks: Sequence[int]) -> None:
        values, at = numbers.values, numbers.firsts
        self.rows = values[at]
        begins, lengths = [], []
        for _ in ARRAYS:
            length = values[at]
            begins.append(at)
            lengths.append(length)
            at = at + np.where(length, self.rows + 2, 1)
        self.begins, length = np.array(begins), np.array(lengths)  # at the length of each
        self.filled: Bools = length != 0
        # Behind an array's numbers comes a 0, or else another block of them.
        behind = values[self.begins + (self.rows + 1) * self.filled]
        if (self.rows < 0).any() or (length != self.rows * self.filled).any() or behind.any():
            raise _Odd
        if (self.filled[0] != self.filled[1]).any():  # rows without users
            raise _Odd
        ends = numbers.ends[at]
        if (ends > numbers.stops).any() or (ends + values[at] != numbers.stops + blocks).any():
            raise _Odd

    def columns(self, values: Ints) -> dict[str, Ints]:
        """The arrays that are not empty in all reports, by name."""
        before = self.rows.cumsum() - self.rows
        order, found = np.arange(before[-1] + self.rows[-1]), dict[str, Ints]()
        # Where a report's array is empty, another one's numbers are taken first.
        begins = np.where(self.filled, self.begins, self.begins[0]) + 1 - before
        for name, begin, filled in zip(ARRAYS, begins, self.filled, strict=True):
            if filled.any():
                column = values[begin.repeat(self.rows) + order]
                if not filled.all():
                    column *= filled.repeat(self.rows)
                found[name] = column
        return found


def read_sheet(pool: str, messages: Sequence[Message]) -> Sheet | None:
    """The reports of a pool in its messages; None when one of them has to be read alone."""
    try:
        return _sheet(pool.encode(), messages)
    except (_Odd, IndexError, ValueError):
        return None


def _sheet(pool: bytes, messages: Sequence[Message]) -> Sheet:
    values = [message.value or b"" for message in messages]
    gateways, ends = _gateways(_front(pool, values[0]), values)
    (sequence, applied, closing, more, age_ms, named), at = _headings(values, ends)
    reader = _Reader()
    for value, begin, count in zip(values, at.tolist(), named.tolist(), strict=True):
        reader.add(value, begin, count)
    numbers = Numbers(reader.tails)
    arrays = _Arrays(numbers, reader.blocks)
    columns = arrays.columns(numbers.values)
    tenant, user = (columns.pop(name, NO_ROWS) for name in ("tenant", "user"))
    _check(tenant, user, named.repeat(arrays.rows), columns)
    of_name, names = places(reader.names)
    first_name = named.cumsum() - named
    append_ms = [message.append_ms for message in messages]
    lists = (column.tolist() for column in (sequence, applied, closing != 0, more != 0, age_ms))
    return Sheet(
        headings=[*map(Heading._make, zip(append_ms, gateways, *lists, strict=True))],
        begins=[0, *arrays.rows.cumsum().tolist()],
        names=names,
        tenant=of_name[tenant + first_name.repeat(arrays.rows)],
        columns=columns,
    )


def _front(pool: bytes, value: bytes) -> bytes:
    """What each report of the pool begins with, read from one of them."""
    head = head_of(UsageReport)
    size, at = number(value, len(head))
    if not value.startswith(head) or value[at : at + size] != pool:
        raise _Odd
    return value[: at + size]


def _gateways(front: bytes, values: Sequence[bytes]) -> tuple[list[str], list[int]]:
    """The gateways' names, and where they end."""
    names, ends = list[str](), list[int]()
    for value in values:
        if not value.startswith(front):
            raise _Odd
        size, at = number(value, len(front))
        if size < 0:
            raise _Odd
        names.append(value[at : at + size].decode())
        ends.append(at + size)
    return names, ends


def _headings(values: Sequence[bytes], begins: Sequence[int]) -> tuple[Ints, Ints]:
    """The numbers behind the gateways' names, (HEADING, reports), and where they end."""
    most = HEADING * LONGEST
    parts = [value[begin : begin + most] for value, begin in zip(values, begins, strict=True)]
    numbers = Numbers(parts)
    place = numbers.firsts + np.arange(HEADING)[:, None]
    heading, ends = numbers.values[place], numbers.ends[place]
    if (ends[-1] > numbers.stops).any() or (ends[3] - ends[1] != 2).any():  # flags have a byte each
        raise _Odd
    if ((heading < LEAST) | (heading > MOST)).any():
        raise _Odd
    return heading, begins + ends[-1] + 1 - numbers.begins


def _check(tenant: Ints, user: Ints, named: Ints, columns: Mapping[str, Ints]) -> None:
    """Raises `_Odd` unless each row is within its bounds."""
    for whose in (tenant, user):
        if (whose < 0).any() or (whose >= named).any():
            raise _Odd
    for name, column in columns.items():
        lowest, highest = BOUNDS[name]
        if not lowest <= column.min() <= column.max() <= highest:
            raise _Odd
