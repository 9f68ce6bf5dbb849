"""An answer on its way from a query's thread to the event loop, a few pieces at a time."""

import asyncio
import threading
from typing import Final

from streams.clickhouse.engine import Piece
from streams.clickhouse.errors import QueryError

_ROOM: Final = 4  # pieces that may wait for a slow client
_ENOUGH: Final = 1 << 20  # releases, to wake a writer that nobody reads


class Abandoned(Exception):
    """Nobody reads the answer any more."""


class Pipe:
    """One writer in a thread, one reader in the loop where this was made."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pieces: asyncio.Queue[Piece | QueryError | None] = asyncio.Queue()
        self._room = threading.Semaphore(_ROOM)
        self._abandoned = False

    def put(self, piece: Piece) -> None:
        """Hand over a piece, waiting for room; raises `Abandoned`. Called in the thread."""
        self._room.acquire()
        self.check()
        self._hand_over(piece)

    def check(self) -> None:
        """Raise `Abandoned` if nobody reads. Called in the thread."""
        if self._abandoned:
            raise Abandoned

    def finish(self, error: QueryError | None = None) -> None:
        """Say that no piece follows, and why. Called in the thread, once."""
        self._hand_over(error)

    def _hand_over(self, item: Piece | QueryError | None) -> None:
        self._loop.call_soon_threadsafe(self._pieces.put_nowait, item)

    async def get(self) -> Piece | None:
        """Return the next piece, None after the last; raises the writer's `QueryError`."""
        item = await self._pieces.get()
        self._room.release()
        if isinstance(item, QueryError):
            raise item
        return item

    def abandon(self) -> None:
        """Read no more: the writer's next `put` raises."""
        self._abandoned = True
        self._room.release(_ENOUGH)
