"""CityHash128 version 1.0.2, the checksum of ClickHouse's compressed blocks.

Written after Google's CityHash (Geoff Pike and Jyrki Alakuijala, MIT licence) in the version that
ClickHouse keeps; later versions give other values. About 20 MB/s, and nothing else here needs it.
"""

import struct
from typing import Final

_64: Final = 0xFFFFFFFFFFFFFFFF
_K0: Final = 0xC3A5C85C97CB3127
_K1: Final = 0xB492B66FBE98F273
_K2: Final = 0x9AE16A3B2F90404F
_K3: Final = 0xC949D7C7509E6557
_MUL: Final = 0x9DDFEA08EB382D69
_PARTS: Final = struct.Struct("<16Q")
_FOUR: Final = struct.Struct("<4Q")
_ONE: Final = struct.Struct("<Q")

Pair = tuple[int, int]


def city_hash_128(data: bytes) -> bytes:
    """Return the 16 bytes that precede a compressed block: low half first, little-endian."""
    size = len(data)
    if size >= 16:
        low, high = _with_seed(data, 16, (_word(data, 0) ^ _K3, _word(data, 8)))
    elif size >= 8:
        seed = (_word(data, 0) ^ (size * _K0 & _64), _word(data, size - 8) ^ _K1)
        low, high = _murmur(b"", 0, seed)
    else:
        low, high = _murmur(data, 0, (_K0, _K1))
    return struct.pack("<QQ", low, high)


def _word(data: bytes, at: int) -> int:
    word: int = _ONE.unpack_from(data, at)[0]
    return word


def _turn(value: int, by: int) -> int:
    value &= _64
    return (value >> by | value << (64 - by)) & _64


def _mix(value: int) -> int:
    return value ^ value >> 47


def _join(low: int, high: int) -> int:
    a = _mix(((low ^ high) & _64) * _MUL & _64)
    return _mix(((high & _64) ^ a) * _MUL & _64) * _MUL & _64


def _weak(words: tuple[int, ...], a: int, b: int) -> Pair:
    """Fold 32 bytes (four words) into a pair."""
    w, x, y, z = words
    a += w
    b = _turn(b + a + z, 21)
    c = a
    a += x + y
    return (a + z) & _64, (b + _turn(a, 44) + c) & _64


def _short(data: bytes) -> int:
    """Hash at most 16 bytes."""
    size = len(data)
    if size > 8:
        a, b = _word(data, 0), _word(data, size - 8)
        return _join(a, _turn(b + size, size)) ^ b
    if size >= 4:
        first, last = struct.unpack_from("<I", data)[0], struct.unpack_from("<I", data, size - 4)[0]
        return _join(size + (first << 3), last)
    if size:
        y = data[0] + (data[size >> 1] << 8)
        z = size + (data[-1] << 2)
        return _mix((y * _K2 ^ z * _K3) & _64) * _K2 & _64
    return _K2


def _murmur(data: bytes, at: int, seed: Pair) -> Pair:
    """Hash fewer than 128 bytes, `data[at:]`."""
    a, b = seed
    size = len(data) - at
    if size <= 16:
        a = _mix(a * _K1 & _64) * _K1 & _64
        c = (b * _K1 + _short(data[at:])) & _64
        d = _mix((a + (_word(data, at) if size >= 8 else c)) & _64)
    else:
        c = _join(_word(data, len(data) - 8) + _K1, a)
        d = _join(b + size, c + _word(data, len(data) - 16))
        a += d
        for start in range(at, len(data) - 16, 16):
            a = ((a ^ _mix(_word(data, start) * _K1 & _64) * _K1) & _64) * _K1 & _64
            b ^= a
            c = ((c ^ _mix(_word(data, start + 8) * _K1 & _64) * _K1) & _64) * _K1 & _64
            d ^= c
    a, b = _join(a, c), _join(d, b)
    return a ^ b, _join(b, a)


def _with_seed(data: bytes, at: int, seed: Pair) -> Pair:
    """Hash `data[at:]`; 56 bytes of state run over pieces of 128 bytes."""
    size = len(data) - at
    if size < 128:
        return _murmur(data, at, seed)
    x, y = seed
    z = size * _K1 & _64
    v0 = (_turn(y ^ _K1, 49) * _K1 + _word(data, at)) & _64
    v = (v0, (_turn(v0, 42) * _K1 + _word(data, at + 8)) & _64)
    w = (
        (_turn(y + z, 35) * _K1 + x) & _64,
        _turn(x + _word(data, at + 88), 53) * _K1 & _64,
    )
    whole = size - size % 128
    for parts in _PARTS.iter_unpack(memoryview(data)[at : at + whole]):
        for half in (parts[:8], parts[8:]):
            x = _turn(x + y + v[0] + half[2], 37) * _K1 & _64 ^ w[1]
            y = _turn(y + v[1] + half[6], 42) * _K1 & _64 ^ v[0]
            z = _turn(z ^ w[0], 33)
            v = _weak(half[:4], v[1] * _K1, x + w[0])
            w = _weak(half[4:], z + w[1], y)
            x, z = z, x
    y += _turn(w[0], 37) * _K0 + z
    x += _turn(v[0] + z, 49) * _K0
    for done in range(32, size % 128 + 32, 32):
        words = _FOUR.unpack_from(data, len(data) - done)
        y = _turn(y - x, 42) * _K0 + v[1]
        w = ((w[0] + words[2]) & _64, w[1])
        x = _turn(x, 49) * _K0 + w[0]
        w = ((w[0] + v[0]) & _64, w[1])
        v = _weak(words, v[0], v[1])
    x, y = _join(x, v[0]), _join(y, w[0])
    return (_join(x + v[1], w[1]) + y) & _64, _join(x + w[1], y + v[1])
