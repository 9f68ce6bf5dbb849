"""Sends a pool's reports, in order, one in flight (PROTOCOL R1)."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from tokenweir.errors import Unavailable
from tokenweir.gateway.link import Link
from tokenweir.gateway.pool import PoolGate
from tokenweir.gateway.spool import Spool
from tokenweir.topics import pool_key

LOG = logging.getLogger(__name__)
RETRY_S = 0.1
BACKLOG = 2  # reports that wait before an empty one is not worth keeping


class Outlet:
    """Cuts a pool's reports when they are due, keeps them, and sends them."""

    def __init__(
        self, gate: PoolGate, spool: Spool, link: Link, topic: str, clock: Callable[[], int]
    ) -> None:
        self.gate = gate
        self.spool = spool
        self._link = link
        self._topic = topic
        self._clock = clock
        self._hurry = asyncio.Event()
        self._filled = asyncio.Event()
        self._emptied = asyncio.Event()

    def hurry(self) -> None:
        """A report is due at once; at most four an interval (R3)."""
        self.gate.hurry = False
        self._hurry.set()

    def cut(self, closing: bool = False) -> None:
        """Cut now. While Kafka is away, a report without rows says nothing that will matter."""
        gate = self.gate
        if len(self.spool) >= BACKLOG and not (gate.rows or gate.streaming or closing):
            return
        self.spool.add(gate.cut(self._clock(), closing))
        self._filled.set()

    async def beat(self, expired: Callable[[], None]) -> None:
        """Cut every half interval, also when nothing happened, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            half_s = self.gate.interval_ms / 2000
            due_s = loop.time() + half_s
            expired()
            self.cut()
            await asyncio.sleep(half_s / 2)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), due_s - loop.time())
            self._hurry.clear()

    async def send(self, partition: int) -> None:
        """Send what the spool holds until cancelled; what fails is sent again, first."""
        while True:
            head = self.spool.head()
            if head is None:
                self._emptied.set()
                self._filled.clear()
                await self._filled.wait()
                continue
            self._emptied.clear()
            sent_ms = self._clock()
            value = head.aged(sent_ms)
            try:
                append_ms = await self._link.send(
                    self._topic, partition, pool_key(self.gate.pool), value
                )
            except Unavailable:
                await asyncio.sleep(RETRY_S)
                continue
            self.spool.acknowledged()
            self._appended(append_ms, sent_ms)

    async def emptied(self) -> None:
        """Wait until every report has been acknowledged."""
        if len(self.spool):
            self._emptied.clear()
            await self._emptied.wait()

    def _appended(self, append_ms: int, sent_ms: int) -> None:
        if append_ms:
            self.gate.acknowledged(append_ms, sent_ms, self._clock())
        else:
            self._link.trouble = (
                f"{self._topic} tells no append times: set message.timestamp.type=LogAppendTime"
            )
