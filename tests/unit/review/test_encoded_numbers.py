"""Numbers that are read at once are the same as one by one."""

import random

import pytest

from tokenweir.review.encoded.numbers import TOO_LONG, Numbers, number


def written(value: int) -> bytes:
    """A number as Avro writes it."""
    left, out = value << 1 if value >= 0 else ~(value << 1), bytearray()
    while left > 127:
        out.append(left & 127 | 128)
        left >>= 7
    return bytes([*out, left])


def each(part: bytes) -> list[int]:
    found, at = list[int](), 0
    while at < len(part):
        value, at = number(part, at)
        found.append(value)
    return found


@pytest.mark.parametrize("bits", [1, 6, 13, 20, 55])
def test_numbers_at_once_are_the_same_as_one_by_one(bits: int) -> None:
    dice = random.Random(bits)
    parts = [
        b"".join(written(dice.randint(-(2**bits), 2**bits - 1)) for _ in range(dice.randint(1, 40)))
        for _ in range(20)
    ]
    numbers = Numbers(parts)
    assert numbers.values[0] == 0
    for part, first, stop in zip(parts, numbers.firsts, numbers.stops, strict=True):
        expected = each(part)
        assert numbers.values[first : first + len(expected)].tolist() == expected
        assert numbers.ends[first + len(expected) - 1] == stop


def test_the_edges_of_each_length_are_read() -> None:
    edges = [0, -1, 63, -64, 64, -65, 8191, -8192, 8192, -8193, 2**20, 2**55 - 1, -(2**55)]
    assert Numbers([b"".join(map(written, edges))]).values.tolist() == [0, *edges]


def test_a_number_of_nine_bytes_is_not_believed() -> None:
    """And those around it are read as they are."""
    part = written(3) + written(2**55) + written(-300)
    assert Numbers([part]).values.tolist() == [0, 3, TOO_LONG, -300]
    with pytest.raises(ValueError, match="9 bytes"):
        number(part, 1)


def test_a_number_that_its_part_breaks_off_reaches_into_no_other_one() -> None:
    numbers = Numbers([written(5) + b"\xff\xff", written(7)])
    assert numbers.values[numbers.firsts].tolist() == [5, 7]
