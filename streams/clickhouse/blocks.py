"""ClickHouse's compressed blocks: what `compress=1` answers with and `decompress=1` reads.

A block is a checksum (16 bytes), a method (1 byte), the compressed size with these nine bytes, the
uncompressed size (each 4 bytes, little-endian), and the data; the checksum covers all after it.
"""

import struct
from collections.abc import Iterator
from typing import Final

import lz4.block
import zstandard

from streams.clickhouse.cityhash import city_hash_128
from streams.clickhouse.errors import refusal

_PLAIN: Final = 0x02
_LZ4: Final = 0x82
_ZSTD: Final = 0x90
_BLOCK_BYTES: Final = 1 << 20
_CHECKSUM_BYTES: Final = 16
_HEADER: Final = struct.Struct("<BII")


def to_blocks(data: bytes) -> bytes:
    """Return `data` as LZ4 blocks of at most 1 MiB each; nothing for nothing."""
    pieces = (data[at : at + _BLOCK_BYTES] for at in range(0, len(data), _BLOCK_BYTES))
    return b"".join(map(_block, pieces))


def _block(data: bytes) -> bytes:
    packed: bytes = lz4.block.compress(data, store_size=False)
    body = _HEADER.pack(_LZ4, _HEADER.size + len(packed), len(data)) + packed
    return city_hash_128(body) + body


def from_blocks(data: bytes, limit_bytes: int) -> Iterator[bytes]:
    """Yield what the blocks hold; raises `QueryError` for damage or more than `limit_bytes`."""
    at = 0
    while at < len(data):
        body_at = at + _CHECKSUM_BYTES
        if body_at + _HEADER.size > len(data):
            raise refusal(271, f"The compressed block at byte {at} is cut short.")
        method, packed_bytes, plain_bytes = _HEADER.unpack_from(data, body_at)
        at, body = body_at + packed_bytes, data[body_at : body_at + packed_bytes]
        limit_bytes -= plain_bytes
        if len(body) != packed_bytes or packed_bytes < _HEADER.size:
            raise refusal(271, f"A compressed block says {packed_bytes} bytes, {len(body)} came.")
        if limit_bytes < 0:
            raise refusal(241, "The request's body is too large when decompressed.")
        if city_hash_128(body) != data[body_at - _CHECKSUM_BYTES : body_at]:
            raise refusal(40, "Checksum doesn't match: the compressed data is damaged.")
        yield _plain(method, body[_HEADER.size :], plain_bytes)


def _plain(method: int, packed: bytes, plain_bytes: int) -> bytes:
    try:
        if method == _LZ4:
            plain: bytes = lz4.block.decompress(packed, uncompressed_size=plain_bytes)
        elif method == _ZSTD:
            plain = zstandard.ZstdDecompressor().decompress(packed, max_output_size=plain_bytes)
        elif method == _PLAIN:
            plain = packed
        else:
            raise refusal(432, f"Unknown compression method 0x{method:02x}: send LZ4 or ZSTD.")
    except (lz4.block.LZ4BlockError, zstandard.ZstdError) as error:
        raise refusal(271, f"A compressed block cannot be decompressed: {error}.") from error
    if len(plain) != plain_bytes:
        raise refusal(271, f"A compressed block says {plain_bytes} bytes and holds {len(plain)}.")
    return plain
