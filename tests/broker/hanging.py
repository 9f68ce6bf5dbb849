"""A ClickHouse that takes the inserts of one partition of a log and never answers them."""

import asyncio

from aiohttp import ClientSession, web

# Of this connection, or different once the body is read.
OWN = ("connection", "content-length", "host", "keep-alive", "transfer-encoding")


class Hanging:
    """Passes HTTP on to a real one; `async with` runs it."""

    def __init__(self, to: str) -> None:
        self.to = to
        self.url = ""
        self.place = ""  # `topic/partition`: the inserts that hang
        self._healed = asyncio.Event()
        self._session = ClientSession(auto_decompress=False)
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=1)

    async def __aenter__(self) -> "Hanging":
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = site.name.replace(":0", f":{self._runner.addresses[0][1]}")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.heal()
        await self._runner.cleanup()
        await self._session.close()

    def heal(self) -> None:
        """Answer everything from now on; what has hung is refused."""
        self.place = ""
        self._healed.set()

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        if self.place and request.query.get("log_comment", "").endswith(f" {self.place}"):
            await self._healed.wait()
            raise web.HTTPServiceUnavailable
        sent = {name: value for name, value in request.headers.items() if name.lower() not in OWN}
        url = f"{self.to}{request.raw_path}"
        async with self._session.request(request.method, url, headers=sent, data=body) as answer:
            kept = {name: v for name, v in answer.headers.items() if name.lower() not in OWN}
            return web.Response(status=answer.status, headers=kept, body=await answer.read())
