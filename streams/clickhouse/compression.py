"""Compression as HTTP knows it: Content-Encoding of requests, Accept-Encoding of answers."""

import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final, Protocol, cast

import lz4.frame
import zstandard

from streams.clickhouse.blocks import to_blocks
from streams.clickhouse.errors import refusal

_PIECE_BYTES: Final = 1 << 20
_ZLIB_LEVEL: Final = 3  # ClickHouse's http_zlib_compression_level


class Encoder(Protocol):
    """Takes an answer's bytes piece by piece and returns what goes on the wire."""

    def add(self, data: bytes) -> bytes:
        """Return what can be sent so far."""

    def end(self) -> bytes:
        """Return the rest."""


class Plain:
    """Bytes as they are."""

    def add(self, data: bytes) -> bytes:
        """Return the data."""
        return data

    def end(self) -> bytes:
        """Return nothing."""
        return b""


class NativeBlocks(Plain):
    """ClickHouse's own compressed blocks (`compress=1`)."""

    def add(self, data: bytes) -> bytes:
        """Return the data as whole blocks."""
        return to_blocks(data)


class _Zlib:
    def __init__(self, wbits: int) -> None:
        self._stream = zlib.compressobj(_ZLIB_LEVEL, wbits=wbits)

    def add(self, data: bytes) -> bytes:
        return self._stream.compress(data)

    def end(self) -> bytes:
        return self._stream.flush()


class _Zstd:
    def __init__(self) -> None:
        self._stream = zstandard.ZstdCompressor(level=1).compressobj()

    def add(self, data: bytes) -> bytes:
        return self._stream.compress(data)

    def end(self) -> bytes:
        return self._stream.flush()


class _Lz4:
    def __init__(self) -> None:
        self._stream = lz4.frame.LZ4FrameCompressor()
        self._start: bytes = self._stream.begin()

    def add(self, data: bytes) -> bytes:
        start, self._start = self._start, b""
        return start + cast(bytes, self._stream.compress(data))

    def end(self) -> bytes:
        start, self._start = self._start, b""
        return start + cast(bytes, self._stream.flush())


# In the order that this server prefers: the cheapest first.
_ENCODERS: Final[dict[str, Callable[[], Encoder]]] = {
    "lz4": _Lz4,
    "zstd": _Zstd,
    "gzip": lambda: _Zlib(zlib.MAX_WBITS | 16),
    "deflate": lambda: _Zlib(zlib.MAX_WBITS),
}

_READERS: Final[dict[str, Callable[[BinaryIO], object]]] = {
    "lz4": lz4.frame.LZ4FrameFile,
    "zstd": lambda file: zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True),
    "gzip": lambda file: gzip.GzipFile(fileobj=file),
    "x-gzip": lambda file: gzip.GzipFile(fileobj=file),
}


def choose_coding(accepted: str) -> str | None:
    """Return the best of the codings that an Accept-Encoding header names, or None."""
    names = {part.partition(";")[0].strip().lower() for part in accepted.split(",")}
    return next((coding for coding in _ENCODERS if coding in names), None)


def encoder(coding: str | None) -> Encoder:
    """Return a new encoder for a Content-Encoding; None leaves bytes as they are."""
    return _ENCODERS[coding]() if coding else Plain()


def decoded(data: bytes, coding: str, limit_bytes: int) -> bytes:
    """Return a request's body without its Content-Encoding.

    Raises `QueryError` for an unknown coding, damage, or more than `limit_bytes`.
    """
    pieces, left = [], limit_bytes
    for piece in _pieces(data, coding.strip().lower()):
        left -= len(piece)
        if left < 0:
            raise refusal(241, f"The request's body is larger than {limit_bytes} bytes.")
        pieces.append(piece)
    return b"".join(pieces)


def _pieces(data: bytes, coding: str) -> Iterator[bytes]:
    if coding in ("", "identity"):
        yield data
        return
    if coding != "deflate" and coding not in _READERS:
        known = ", ".join([*_READERS, "deflate"])
        raise refusal(432, f"Unknown Content-Encoding '{coding}': send one of {known}.")
    try:
        if coding == "deflate":
            yield from _inflated(data)
        else:
            reader = cast(BinaryIO, _READERS[coding](io.BytesIO(data)))
            yield from iter(lambda: reader.read(_PIECE_BYTES), b"")
    except (OSError, EOFError, RuntimeError, zlib.error, zstandard.ZstdError) as error:
        raise refusal(271, f"The request's body is not valid {coding}: {error}.") from error


def _inflated(data: bytes) -> Iterator[bytes]:
    stream = zlib.decompressobj()
    while data:
        yield stream.decompress(data, _PIECE_BYTES)
        data = stream.unconsumed_tail
    if not stream.eof:
        raise EOFError("it is cut short")
