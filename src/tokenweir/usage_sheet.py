"""Reports read into one table, all numbers of all columns at once.

The bytes are Avro's: a number is zig-zag coded in groups of seven bits, the lowest first, and ends
with the first byte below 128. What this does not know (another version of the schema, arrays in
several blocks, whatever is odd or too large) it leaves to those who read one record after the other
and say what is wrong. The block of requests is passed over: only history reads it.
"""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from tokenweir.avro import LONGEST, number
from tokenweir.core.fold import COLUMNS, HIGHEST, LOWEST
from tokenweir.core.sheet import Heading, Sheet
from tokenweir.core.terms import Ints
from tokenweir.records.usage import RequestsBlock, UsageReport
from tokenweir.usage_log import Message
from tokenweir.wire import head_of

ARRAYS = 2 + len(COLUMNS)  # of numbers: tenant, user, and the columns
BLOCK = head_of(RequestsBlock)  # what is behind it needs no look


class _Odd(Exception):
    """These bytes are read one record after the other."""


class _Reader:
    """What is read of each report before all of their numbers are."""

    def __init__(self) -> None:
        self.headings: list[Heading] = []
        self.names: list[bytes] = []
        self.named: list[int] = []  # how many names each report has
        self.tails: list[bytes] = []  # from the first number of the first array on
        self.blocks: list[int] = []  # how many bytes of their blocks are left out

    def add(self, append_ms: int, value: bytes, at: int) -> None:
        """Read the heading and the names; the pool's name ends at `at`."""
        size, at = number(value, at)
        gateway, at = value[at : at + size].decode(), at + size
        sequence, at = number(value, at)
        applied, at = number(value, at)
        closing, more = value[at], value[at + 1]
        if size < 0 or closing > 1 or more > 1:
            raise _Odd
        age_ms, at = number(value, at + 2)
        at = self._names(value, at)
        rows, at = number(value, at)
        if rows < 0:
            raise _Odd
        self.headings.append(
            Heading(append_ms, gateway, sequence, applied, closing == 1, more == 1, age_ms, rows)
        )
        end = value.find(BLOCK, at)
        end = len(value) if end < 0 else end
        self.tails.append(value[at:end])
        self.blocks.append(len(value) - end)

    def _names(self, value: bytes, at: int) -> int:
        count, at = number(value, at)
        self.named.append(count)
        if count == 0:
            return at
        step = (value[at] >> 1) + 1
        block = value[at : at + count * step]
        if block[::step] == value[at : at + 1] * count and not value[at] & 129:
            # Names of the same length, as numbered ones are.
            self.names += [block[begin : begin + step - 1] for begin in range(1, len(block), step)]
            at += count * step
        else:
            at = self._name_by_name(value, at, count)
        if count < 0 or value[at]:  # another block of them
            raise _Odd
        return at + 1

    def _name_by_name(self, value: bytes, at: int, count: int) -> int:
        add = self.names.append
        for _ in range(count):
            size = value[at]
            at += 1
            if size & 129:  # 64 bytes or more, or negative
                size, at = number(value, at - 1)
                size *= 2
            end = at + (size >> 1)
            if end < at:
                raise _Odd
            add(value[at:end])
            at = end
        return at


class _Numbers:
    """All numbers of all tails. A 0 stands before each of them."""

    def __init__(self, tails: Sequence[bytes]) -> None:
        self.bytes = np.frombuffer(b"\0" + b"\0".join(tails), dtype=np.uint8)
        self.ends = np.flatnonzero(self.bytes < 128)
        last = self.bytes[self.ends]  # each number's last byte
        self.last = last.tobytes()
        self.values = self._read(last)
        size = np.array([len(tail) for tail in tails], dtype=np.int64)
        self.stops = np.cumsum(size + 1) - 1  # the last byte of each tail
        self.firsts: list[int] = np.searchsorted(self.ends, self.stops - size + 1).tolist()

    def _read(self, last: np.ndarray) -> Ints:
        found, sizes, size = last.astype(np.int64), np.diff(self.ends, prepend=-1), 1
        longer = np.flatnonzero(sizes > size)
        while len(longer):
            if size == LONGEST:
                raise _Odd
            found[longer] = found[longer] << 7 | self.bytes[self.ends[longer] - size] & 127
            size += 1
            longer = longer[sizes[longer] > size]
        return (found >> 1) ^ -(found & 1)


class _Arrays:
    """Where the arrays that are not empty lie."""

    def __init__(self) -> None:
        self.begins: list[int] = []  # the first number of each
        self.which = bytearray()  # and its row in the table
        self.found: list[int] = []  # how many of them each report has
        self.behind: list[int] = []  # the number behind a report's last one

    def walk(self, last: bytes, at: int, rows: int) -> None:
        """Go through a report's arrays by their lengths."""
        begin, which, before = self.begins.append, self.which.append, len(self.begins)
        if rows:
            begin(at)
            which(0)
            at += rows + 1
            if not last[at]:  # rows without users
                raise _Odd
        for array in range(1, ARRAYS):
            if last[at]:
                begin(at + 1)
                which(array)
                at += rows + 2
            else:
                at += 1
        self.found.append(len(self.begins) - before)
        self.behind.append(at)
        if not rows and self.found[-1]:
            raise _Odd


def read_sheet(pool: str, messages: Sequence[Message]) -> Sheet | None:
    """The reports of a pool in its messages; None when one of them has to be read alone."""
    head, name, reader = head_of(UsageReport), pool.encode(), _Reader()
    try:
        for message in messages:
            value = message.value
            if value is None or not value.startswith(head):
                return None
            size, at = number(value, len(head))
            if value[at : at + size] != name:
                return None
            reader.add(message.append_ms, value, at + size)
        return _sheet(reader)
    except (_Odd, IndexError, ValueError):
        return None


def _sheet(reader: _Reader) -> Sheet:
    rows = [heading.rows for heading in reader.headings]
    table = _table(_Numbers(reader.tails), rows, reader.blocks)
    whose, columns = table[:2], table[2:]
    named = np.array(reader.named, dtype=np.int64)
    if ((whose < 0) | (whose >= np.repeat(named, rows))).any():
        raise _Odd
    if ((columns < LOWEST) | (columns > HIGHEST)).any():
        raise _Odd
    places = {name: place for place, name in enumerate(dict.fromkeys(reader.names))}
    of_name = np.array([*map(places.__getitem__, reader.names)], dtype=np.int64)
    filled = [bool(column.any()) for column in columns]
    return Sheet(
        headings=reader.headings,
        begins=[*accumulate(rows, initial=0)],
        names=[name.decode() for name in places],
        tenant=of_name[whose[0] + np.repeat(np.cumsum(named) - named, rows)],
        table=columns,
        filled=filled,
    )


def _table(numbers: _Numbers, rows: Sequence[int], blocks: Sequence[int]) -> Ints:
    """All arrays as rows of one table, those of the tenants and users first."""
    arrays, total = _Arrays(), sum(rows)
    for first, of_report in zip(numbers.firsts, rows, strict=True):
        arrays.walk(numbers.last, first, of_report)
    begin, behind = (np.array(each, dtype=np.int64) for each in (arrays.begins, arrays.behind))
    begins_at = np.cumsum(rows) - rows  # a report's first row
    count, before = np.repeat([rows, begins_at], arrays.found, axis=1)
    place = np.frombuffer(arrays.which, dtype=np.uint8) * np.int64(total) + before
    values, told = numbers.values, numbers.values[begin - 1]
    # The first array's length was read before, and anything may stand in front of it.
    told[place < total] = count[place < total]
    # Behind an array's numbers comes a 0, or else another block of them.
    if (told != count).any() or values[begin + count].any():
        raise _Odd
    if (numbers.ends[behind] + values[behind] != numbers.stops + blocks).any():
        raise _Odd
    upto = np.cumsum(count)
    source = np.arange(int(count.sum())) + np.repeat(begin - (upto - count), count)
    table = np.zeros((ARRAYS, total), dtype=np.int64)
    table.reshape(-1)[source + np.repeat(place - begin, count)] = values[source]
    return table
