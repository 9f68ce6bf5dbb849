"""Numbers in Avro's bytes, for who reads a few of them without the rest."""

LONGEST = 8  # bytes of a number that is believed


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
