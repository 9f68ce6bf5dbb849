"""The client at the other end of a request: whether it is still there."""

import asyncio

from tokenweir.adapters.asgi.body import request_message
from tokenweir.adapters.asgi.caller import Message, Receive
from tokenweir.gateway import Call


class Line:
    """Gives the app its request once the whole is here, and notices when the client hangs up.

    `async with`; a call that is `waiting` for admission then is abandoned.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._body: bytes | None = None
        self._gone = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None
        self.waiting: Call | None = None

    async def __aenter__(self) -> "Line":
        """Begin to watch."""
        self._watch = asyncio.create_task(self._until_gone())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Watch no longer."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)

    @property
    def gone(self) -> bool:
        """The client has hung up."""
        return self._gone.is_set()

    def hang_up(self) -> None:
        """The client cannot be reached."""
        self._gone.set()

    async def resumed(self, call: Call) -> None:
        """Wait until a suspended call goes on or ends, or the client hangs up."""
        if not call.suspended:
            return
        ends = asyncio.create_task(self._gone.wait()), asyncio.create_task(call.resumed())
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()
            await asyncio.gather(*ends, return_exceptions=True)

    def give(self, body: bytes) -> None:
        """What the app is to read as the request's body."""
        self._body = body

    async def receive(self) -> Message:
        """The request, and then, whenever it comes, its end."""
        if self._body is not None:
            body, self._body = self._body, None
            return request_message(body)
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _until_gone(self) -> None:
        message = await self._receive()
        while message["type"] != "http.disconnect":
            message = await self._receive()
        self._gone.set()
        if self.waiting is not None:
            self.waiting.abandon()
