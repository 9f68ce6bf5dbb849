"""A gateway under load, to be killed: it writes each id down before and after it is settled."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from tests.unit.gateway.made import POOL
from tokenweir.gateway import Gateway, Refused

TOKENS = (5, 3)  # uncached, out


class Notes:
    """Lines in a file, each there before the next step."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, what: str, id: str) -> None:
        os.write(self._file, f"{what} {id}\n".encode())


async def load(gateway: Gateway, notes: Notes, stop: asyncio.Event) -> None:
    while not stop.is_set():
        try:
            async with gateway.request(tenant="ela", pool=POOL, estimate=10) as call:
                await asyncio.sleep(0.001)
                notes.write("before", call.id)
                call.settle(uncached=TOKENS[0], out=TOKENS[1])
                notes.write("after", call.id)
        except Refused:
            await asyncio.sleep(0.01)


async def main(brokers: str, prefix: str, spool: str, path: str) -> None:
    notes = Notes(path)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    gateway = Gateway(
        brokers=brokers, name="edge", pools=[POOL], prefix=prefix, spool_path=Path(spool)
    )
    async with gateway:
        notes.write("gateway", gateway.id)
        await asyncio.gather(*(load(gateway, notes, stop) for _ in range(4)))
        while gateway.left_reports:  # noqa: ASYNC110 - a test waits for what it looks at
            await asyncio.sleep(0.05)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
