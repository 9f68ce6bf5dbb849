"""Records of the wire as numbers with text between: NumPy writes all of a record's numbers at once.

Lengths of text and of arrays and the symbols of enums are numbers too, zig-zag coded in groups of
seven bits as all of Avro's, so most records are numbers and some text. `wire.encode` writes the
same bytes of any record; it takes longer for each number.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Put = Callable[[Any, "Flat"], None]

BITS = 53  # of the longest number that is written here; as a float it is exact
# By the bits of a number: the groups but its last add 128; and a 1 in the byte of each group.
GROUPS = [max(-(-bits // 7), 1) for bits in range(BITS + 1)]
MORE = np.array([sum(128 << 8 * at for at in range(size - 1)) for size in GROUPS], dtype="<i8")
TAKEN = np.array([sum(1 << 8 * at for at in range(size)) for size in GROUPS], dtype="<i8")


@dataclass(slots=True)
class Flat:
    """Numbers, and each text with the count of the numbers before it."""

    numbers: list[int] = field(default_factory=list)
    texts: list[tuple[int, bytes]] = field(default_factory=list)


def put_number(value: int, flat: Flat) -> None:
    """A number."""
    flat.numbers.append(value)


def put_numbers(values: Sequence[int], flat: Flat) -> None:
    """An array of numbers: one block, and the end of the blocks."""
    if values:
        flat.numbers.append(len(values))
        flat.numbers.extend(values)
    flat.numbers.append(0)


def put_text(value: str, flat: Flat) -> None:
    """A text."""
    text = value.encode()
    flat.numbers.append(len(text))
    flat.texts.append((len(flat.numbers), text))


def put_names(values: Sequence[str], flat: Flat) -> None:
    """An array of text."""
    if values:
        flat.numbers.append(len(values))
        flat.texts.append((len(flat.numbers), _joined(tuple(values))))
    flat.numbers.append(0)


@lru_cache(maxsize=256)  # from one record to the next a column of names is mostly the same
def _joined(names: Sequence[str]) -> bytes:
    flat = Flat()
    for name in names:
        put_text(name, flat)
    return written(np.array(flat.numbers, dtype=np.int64), flat.texts)


def putters(schema: Any) -> dict[str, Put]:
    """What puts each field of a record, by its parsed schema.

    Raises `KeyError` or `TypeError` where it has others than numbers, text, enums, arrays, records.
    """
    named: dict[str, Put] = {"int": put_number, "long": put_number, "string": put_text}
    return {part["name"]: _putter(part["type"], named) for part in schema["fields"]}


def _putter(schema: Any, named: dict[str, Put]) -> Put:
    if isinstance(schema, str):
        return named[schema]
    kind = schema["type"]
    if kind == "array":
        return _array(_putter(schema["items"], named))
    named[schema["name"]] = _enum(schema["symbols"]) if kind == "enum" else _record(schema, named)
    return named[schema["name"]]


def _record(schema: Any, named: dict[str, Put]) -> Put:
    read = attrgetter(*(part["name"] for part in schema["fields"]))
    puts = [_putter(part["type"], named) for part in schema["fields"]]

    def put(value: Any, flat: Flat) -> None:
        for put_part, part in zip(puts, read(value), strict=True):
            put_part(part, flat)

    return put


def _enum(symbols: Iterable[str]) -> Put:
    places = {symbol: place for place, symbol in enumerate(symbols)}

    def put(value: str, flat: Flat) -> None:
        flat.numbers.append(places[value])

    return put


def _array(put_item: Put) -> Put:
    if put_item is put_number:
        return put_numbers
    if put_item is put_text:
        return put_names

    def put(values: Sequence[Any], flat: Flat) -> None:
        if values:
            flat.numbers.append(len(values))
            for value in values:
                put_item(value, flat)
        flat.numbers.append(0)

    return put


def written(numbers: Ints, texts: Sequence[tuple[int, bytes]]) -> bytes:
    """Numbers and text as Avro's bytes.

    Raises `OverflowError` for a number of more than 53 bits, its sign among them.
    """
    groups, places = _groups(_zig_zag(numbers))
    coded = groups.take(places).tobytes()
    ends = places.searchsorted([8 * count for count, _ in texts]).tolist()
    parts, done = [], 0
    for end, (_, text) in zip(ends, texts, strict=True):
        parts += [coded[done:end], text]
        done = end
    return b"".join((*parts, coded[done:]))


def _zig_zag(numbers: Ints) -> Ints:
    """0, -1, 1, -2, ... as 0, 1, 2, 3, ..."""
    if _bits(numbers) < BITS:
        return numbers << 1
    coded = numbers << 1 ^ numbers >> 63
    if _bits(coded) > BITS:
        raise OverflowError(f"a number of more than {BITS} bits")
    return coded


def _bits(numbers: Ints) -> int:
    """Of the largest number; negative ones have all 64."""
    return int(np.maximum.reduce(numbers.view(np.uint64), initial=0)).bit_length()


def _groups(coded: Ints) -> tuple[NDArray[np.uint8], Ints]:
    """Eight groups of seven bits of each number, a byte each; and the places of those it takes.

    The bits are moved apart inside the 64 of a number: halves of 28 first, then quarters, eighths.
    """
    apart = coded + (coded & 0x00FF_FFFF_F000_0000) * 15  # 16 times, with what is there already
    apart += (apart & 0x0FFF_C000_0FFF_C000) * 3
    apart += apart & 0x3F80_3F80_3F80_3F80
    bits = np.frexp(coded)[1]
    apart |= MORE.take(bits)
    groups = apart.astype("<i8", copy=False).view(np.uint8)
    return groups, TAKEN.take(bits).view(np.bool_).nonzero()[0]
