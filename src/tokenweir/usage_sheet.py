"""Reports read into columns, all numbers of all reports at once.

The bytes are Avro's: a number is zig-zag coded in groups of seven bits, the lowest first, and ends
with the first byte below 128. What this does not know (another version of the schema, arrays in
several blocks, whatever is odd or too large) it leaves to those who read one record after the other
and say what is wrong. The block of requests is passed over: only history reads it.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from struct import unpack
from typing import NamedTuple

import numpy as np

from tokenweir.avro import LONGEST, number
from tokenweir.core.fold import COLUMNS, HIGHEST, LOWEST, MOST_AGE_MS
from tokenweir.core.sheet import Heading, Sheet
from tokenweir.core.terms import Bools, Ints
from tokenweir.records.usage import RequestsBlock, UsageReport
from tokenweir.usage_log import Message
from tokenweir.wire import head_of

ARRAYS = ("tenant", "user", *COLUMNS)  # of numbers
BOUNDS = dict(zip(COLUMNS, zip(LOWEST[:, 0], HIGHEST[:, 0], strict=True), strict=True))
BLOCK = head_of(RequestsBlock)  # what is behind it needs no look
HEADING = 6  # numbers: sequence, applied, closing, more, age, and how many names follow
MAX = np.iinfo(np.int64).max
LEAST, MOST = np.array([[1, 0, -1, -1, 0, 0], [MAX, MAX, 0, 0, MOST_AGE_MS, MAX]])[:, :, None]
NO_ROWS = np.zeros(0, dtype=np.int64)
SLOT_BITS, FACTOR = 13, np.uint64(0x9E3779B97F4A7C15)  # for a look-up of names; odd
TOO_LONG = np.iinfo(np.int64).min  # stands for a number that is not believed


class _Odd(Exception):
    """These bytes are read one record after the other."""


class _Numbers:
    """All numbers of some parts, each of which begins with one. A 0 stands before each part."""

    def __init__(self, parts: Sequence[bytes]) -> None:
        self.bytes = np.frombuffer(b"\0" + b"\0".join(parts), dtype=np.uint8)
        self.goes_on: Bools = self.bytes > 127
        self.ends = np.flatnonzero(~self.goes_on)  # each number's last byte
        self.values = self._read()
        sizes = np.array([*map(len, parts)], dtype=np.int64)
        self.stops = (sizes + 1).cumsum() - 1  # the last byte of each part
        self.begins = self.stops - sizes + 1
        self.firsts = self.ends.searchsorted(self.begins)

    def _read(self) -> Ints:
        """Most have one byte or two: 16 bits do for a first look at what may end with each byte."""
        found, two = self.bytes.astype(np.int16), self.goes_on[:-1].astype(np.int16)
        found[1:] = found[1:] << 7 * two | found[:-1] & 127 * two
        values = _signed(found)[self.ends].astype(np.int64)
        is_longer = self.goes_on[:-2] & self.goes_on[1:-1] & ~self.goes_on[2:]
        if is_longer.any():
            ends = np.flatnonzero(is_longer) + 2
            values[self.ends.searchsorted(ends)] = self._longer(ends)
        return values

    def _longer(self, ends: Ints) -> Ints:
        found, more = self.bytes[ends].astype(np.int64), np.ones(len(ends), dtype=np.bool_)
        for size in range(1, LONGEST):
            more &= self.goes_on[ends - size]
            if not more.any():
                break
            found = np.where(more, found << 7 | self.bytes[ends - size] & 127, found)
        more &= self.goes_on[ends - LONGEST]
        return np.where(more, TOO_LONG, _signed(found))


def _signed(found: np.ndarray) -> np.ndarray:
    return (found >> 1) ^ -(found & 1)


class _Places(dict[bytes, int]):
    """Names by their order, each once."""

    def __missing__(self, name: bytes) -> int:
        self[name] = place = len(self)
        return place


class _Names(NamedTuple):
    """A report's names; `block` holds them, each behind its length, if they all have `step`."""

    step: int
    block: bytes
    listed: Sequence[bytes]

    def each(self) -> Sequence[bytes]:
        """One after the other."""
        step, block, listed = self
        return unpack(f"x{step - 1}s" * (len(block) // step), block) if step else listed


class _Reader:
    """What is read of each report before all of their numbers are."""

    def __init__(self) -> None:
        self.names: list[_Names] = []
        self.tails: list[bytes] = []  # from the length of the first array of numbers on
        self.blocks: list[int] = []  # how many bytes of their blocks are left out

    def add(self, value: bytes, at: int, count: int) -> None:
        """Read the names, which begin at a place."""
        if count:
            names, at = _names(value, at, count)
            if value[at]:  # another block of them
                raise _Odd
            self.names.append(names)
            at += 1
        end = value.find(BLOCK, at)
        end = len(value) if end < 0 else end
        self.tails.append(value[at:end])
        self.blocks.append(len(value) - end)


def _names(value: bytes, at: int, count: int) -> tuple[_Names, int]:
    size, step = value[at], (value[at] >> 1) + 1
    end = at + count * step
    if size & 129 or value[at:end:step].count(size) != count:
        listed, end = _one_by_one(value, at, count)
        return _Names(0, b"", listed), end
    return _Names(step, value[at:end], ()), end  # of the same length, as numbered ones are


def _one_by_one(value: bytes, at: int, count: int) -> tuple[Sequence[bytes], int]:
    names = list[bytes]()
    for _ in range(count):
        size = value[at]
        at += 1
        if size & 129:  # 64 bytes or more, or negative
            size, at = number(value, at - 1)
            size *= 2
        end = at + (size >> 1)
        if end < at:
            raise _Odd
        names.append(value[at:end])
        at = end
    return names, at


def _places(names: Sequence[_Names], known: _Places) -> Ints:
    """The place of each name among those that are known, to which new ones are added."""
    step = names[0].step if names else 0
    if step and all(report.step == step for report in names):
        return _of_one_length(b"".join([report.block for report in names]), step, known)
    each = chain.from_iterable(report.each() for report in names)
    return np.array([*map(known.__getitem__, each)], dtype=np.int64)


def _of_one_length(block: bytes, step: int, known: _Places) -> Ints:
    """The same, in fewer looks at `known`: names that were seen before are found by their bytes."""
    count = len(block) // step
    even = np.zeros((count, -(-step // 8) * 8), dtype=np.uint8)
    even[:, :step] = np.frombuffer(block, dtype=np.uint8).reshape(count, step)
    words, hashed = even.view(np.uint64).T, np.zeros(count, dtype=np.uint64)
    for word in words:
        hashed = (hashed ^ word) * FACTOR
    slot = hashed >> np.uint64(64 - SLOT_BITS)
    number, seen = np.arange(count), np.empty(1 << SLOT_BITS, dtype=np.int64)
    seen[slot] = number
    same = seen[slot]  # one of those with the same slot: mostly the same name
    for word in words:
        same = np.where(word[same] == word, same, number)
    found = np.zeros(count, dtype=np.int64)
    is_looked_up = np.zeros(count, dtype=np.bool_)
    is_looked_up[same] = True
    for place in np.flatnonzero(is_looked_up).tolist():
        found[place] = known[block[place * step + 1 : (place + 1) * step]]
    places: Ints = found[same]
    return places


class _Arrays:
    """Where each report's arrays lie; matrices of shape (arrays, reports)."""

    def __init__(self, numbers: _Numbers, blocks: Sequence[int]) -> None:
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
    numbers = _Numbers(reader.tails)
    arrays = _Arrays(numbers, reader.blocks)
    columns = arrays.columns(numbers.values)
    tenant, user = (columns.pop(name, NO_ROWS) for name in ("tenant", "user"))
    _check(tenant, user, named.repeat(arrays.rows), columns)
    known = _Places()
    of_name, first_name = _places(reader.names, known), named.cumsum() - named
    append_ms = [message.append_ms for message in messages]
    lists = (column.tolist() for column in (sequence, applied, closing != 0, more != 0, age_ms))
    return Sheet(
        headings=[*map(Heading._make, zip(append_ms, gateways, *lists, strict=True))],
        begins=[0, *arrays.rows.cumsum().tolist()],
        names=[name.decode() for name in known],
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
    numbers = _Numbers(parts)
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
