"""The server's life: open the engine, listen, say so, and close when told."""

import asyncio
import contextlib
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

from aiohttp import web

from streams.clickhouse.access import Limits
from streams.clickhouse.desk import Desk
from streams.clickhouse.engine import Engine
from streams.clickhouse.http import Front

HOST: Final = "127.0.0.1"
_GRACE_S: Final = 5.0  # for INSERTs that run when it is told to stop


async def serve(data: Path, port: int, limits: Limits, ready: Callable[[str, str], None]) -> None:
    """Serve until SIGTERM or SIGINT; `ready` is told the engine's version and the URL.

    `data` is an absolute path; port 0 takes a free one. Raises `DataFolderError`, or `OSError` if
    the port is taken.
    """
    stop = asyncio.Event()
    desk = Desk(Engine(data, limits))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    runner = Front(desk).runner()
    try:
        await runner.setup()
        await web.TCPSite(runner, HOST, port, backlog=128).start()
        ready(desk.engine.server.version, f"http://{HOST}:{runner.addresses[0][1]}")
        await stop.wait()
    finally:
        for site in list(runner.sites):
            await site.stop()
        await desk.close(_GRACE_S)
        with contextlib.suppress(asyncio.TimeoutError):
            await runner.cleanup()
