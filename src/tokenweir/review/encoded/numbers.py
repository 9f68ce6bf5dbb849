"""Numbers in Avro's bytes, for who reads some of them without the rest."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

LONGEST = 8  # bytes of a number that is believed
TOO_LONG = np.iinfo(np.int64).min  # stands for one that is not


def number(value: bytes, at: int) -> tuple[int, int]:
    """The number at a place, and where it ends.

    Zig-zag coded in groups of seven bits, the lowest first; the last byte is below 128. Raises
    `IndexError` behind the end, and `ValueError` for what is longer than any of ours.
    """
    byte = value[at]
    at += 1
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), at
    found, shift = byte & 127, 7
    while byte > 127:
        byte = value[at]
        at += 1
        found |= (byte & 127) << shift
        shift += 7
    if shift > 7 * LONGEST:
        raise ValueError(f"a number of {shift // 7} bytes")
    return (found >> 1) ^ -(found & 1), at


class Numbers:
    """All numbers of some parts, each of which begins with one. A 0 stands before each part."""

    def __init__(self, parts: Sequence[bytes]) -> None:
        self.bytes = np.frombuffer(b"\0" + b"\0".join(parts), dtype=np.uint8)
        self.goes_on: NDArray[np.bool_] = self.bytes > 127
        self.ends = np.flatnonzero(~self.goes_on)  # each number's last byte
        self.values = self._read()
        sizes = np.array([*map(len, parts)], dtype=np.int64)
        self.stops = (sizes + 1).cumsum() - 1  # the last byte of each part
        self.begins = self.stops - sizes + 1
        self.firsts = self.ends.searchsorted(self.begins)

    def _read(self) -> NDArray[np.int64]:
        """Most have one byte or two: 16 bits do for a first look at what may end with each byte."""
        found, two = self.bytes.astype(np.int16), self.goes_on[:-1].astype(np.int16)
        found[1:] = found[1:] << 7 * two | found[:-1] & 127 * two
        values = _signed(found)[self.ends].astype(np.int64)
        is_longer = self.goes_on[:-2] & self.goes_on[1:-1] & ~self.goes_on[2:]
        if is_longer.any():
            ends = np.flatnonzero(is_longer) + 2
            values[self.ends.searchsorted(ends)] = self._longer(ends)
        return values

    def _longer(self, ends: NDArray[np.int64]) -> NDArray[np.int64]:
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
