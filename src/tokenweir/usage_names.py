"""The names in many reports, each of which is looked up in many of them."""

from collections.abc import Sequence
from itertools import chain
from struct import unpack
from typing import NamedTuple

import numpy as np

from tokenweir.avro import number
from tokenweir.core.terms import Ints

SLOT_BITS, FACTOR = 13, np.uint64(0x9E3779B97F4A7C15)  # odd, so that each bit of a name tells


class Names(NamedTuple):
    """A report's names: `block` holds them, each behind its length, when all have `step` bytes.

    Otherwise `step` is 0 and they are `listed`.
    """

    step: int
    block: bytes
    listed: Sequence[bytes]

    def each(self) -> Sequence[bytes]:
        """One after the other."""
        step, block, listed = self
        return unpack(f"x{step - 1}s" * (len(block) // step), block) if step else listed


def read_names(value: bytes, at: int, count: int) -> tuple[Names, int]:
    """So many names, one or more, from a place on, and where they end.

    Raises `IndexError` behind the value's end, and `ValueError` for a length that cannot be.
    """
    size, step = value[at], (value[at] >> 1) + 1
    end = at + count * step
    if size & 129 or value[at:end:step].count(size) != count:
        listed, end = _one_by_one(value, at, count)
        return Names(0, b"", listed), end
    return Names(step, value[at:end], ()), end  # of the same length, as numbered ones are


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
            raise ValueError(f"a name of {size >> 1} bytes")
        names.append(value[at:end])
        at = end
    return names, at


class _Places(dict[bytes, int]):
    """Names by their order, each once."""

    def __missing__(self, name: bytes) -> int:
        self[name] = place = len(self)
        return place


def places(reports: Sequence[Names]) -> tuple[Ints, list[str]]:
    """The place of each name of all reports among all that there are, and these, each once.

    Raises `ValueError` for one that is no text.
    """
    known = _Places()
    step = reports[0].step if reports else 0
    if step and all(report.step == step for report in reports):
        found = _of_one_length(b"".join([report.block for report in reports]), step, known)
    else:
        each = chain.from_iterable(report.each() for report in reports)
        found = np.array([*map(known.__getitem__, each)], dtype=np.int64)
    return found, [name.decode() for name in known]


def _of_one_length(block: bytes, step: int, known: _Places) -> Ints:
    """Names by their bytes in 64 bits each; nearly all are found to be the same as another one."""
    count = len(block) // step
    even = np.zeros((count, -(-step // 8) * 8), dtype=np.uint8)
    even[:, :step] = np.frombuffer(block, dtype=np.uint8).reshape(count, step)
    words, hashed = even.view(np.uint64).T, np.zeros(count, dtype=np.uint64)
    for word in words:
        hashed = (hashed ^ word) * FACTOR
    slot = hashed >> np.uint64(64 - SLOT_BITS)
    own, seen = np.arange(count), np.empty(1 << SLOT_BITS, dtype=np.int64)
    seen[slot] = own
    same: Ints = seen[slot]  # the last one of this slot, which another name may have too
    for word in words:
        same = np.where(word[same] == word, same, own)
    is_asked = np.zeros(count, dtype=np.bool_)
    is_asked[same] = True
    found: Ints = np.zeros(count, dtype=np.int64)
    for place in np.flatnonzero(is_asked).tolist():
        found[place] = known[block[place * step + 1 : (place + 1) * step]]
    return found[same]
