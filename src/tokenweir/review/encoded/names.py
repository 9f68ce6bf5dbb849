"""The names in many reports, each of which stands in many of them."""

from collections.abc import Sequence
from struct import unpack

import numpy as np

from tokenweir.core.terms import Ints
from tokenweir.review.encoded.numbers import number


def read_names(value: bytes, at: int, count: int) -> tuple[Sequence[bytes], int]:
    """So many names, one or more, from a place on, and where they end.

    Raises `IndexError` behind the value's end, and `ValueError` for a length that cannot be.
    """
    size, step = value[at], (value[at] >> 1) + 1
    end = at + count * step
    if size & 129 or value[at:end:step].count(size) != count:
        return _one_by_one(value, at, count)
    # Of the same length, as numbered ones are.
    return unpack(f"x{step - 1}s" * count, value[at:end]), end


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


def places(names: Sequence[bytes]) -> tuple[Ints, list[str]]:
    """The place of each name among all that there are, and these, each once.

    Raises `ValueError` for one that is no text.
    """
    known = _Places()
    found = np.array([*map(known.__getitem__, names)], dtype=np.int64)
    return found, [name.decode() for name in known]
