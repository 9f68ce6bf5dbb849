"""A TCP proxy that can be cut: nothing passes, nobody is told, as when a network fails."""

import asyncio
from contextlib import closing, suppress

PIECE_BYTES = 65_536


class Proxy:
    """Forwards connections to `port` on loopback to another port; `async with` runs it."""

    def __init__(self, port: int, to: int) -> None:
        self._port, self._to = port, to
        self._open = asyncio.Event()
        self._open.set()
        self._server: asyncio.Server | None = None
        self._joined: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "Proxy":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for joining in self._joined:
            joining.cancel()
        await asyncio.gather(*self._joined, return_exceptions=True)

    def cut(self) -> None:
        """Let nothing through; what is on its way comes late."""
        self._open.clear()

    def heal(self) -> None:
        """Let everything through again, first what was on its way."""
        self._open.set()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        joining = asyncio.create_task(self._join(reader, writer))
        self._joined.add(joining)
        joining.add_done_callback(self._joined.discard)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(OSError):
            await self._open.wait()
            from_there, to_there = await asyncio.open_connection("127.0.0.1", self._to)
            with closing(to_there):
                await asyncio.gather(self._pump(reader, to_there), self._pump(from_there, writer))

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with closing(sink), suppress(OSError):
            while piece := await source.read(PIECE_BYTES):
                await self._open.wait()
                sink.write(piece)
                await sink.drain()
            await self._open.wait()
