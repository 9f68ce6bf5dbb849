"""Sends a pool's reports, in order, one in flight (PROTOCOL R1)."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from tokenweir.errors import Unavailable
from tokenweir.gateway.link import Link
from tokenweir.gateway.pool import PoolGate
from tokenweir.gateway.report import Cut
from tokenweir.gateway.spool import Outbox
from tokenweir.gateway.told import Told
from tokenweir.topics import pool_key

LOG = logging.getLogger(__name__)
RETRY_S = 0.1
BACKLOG = 2  # reports that wait before an empty one is not worth keeping


class Outlet:
    """Cuts a pool's reports when they are due, keeps them, and sends them."""

    def __init__(
        self, gate: PoolGate, spool: Outbox, link: Link, topic: str, clock: Callable[[], int]
    ) -> None:
        self.gate = gate
        self.spool = spool
        self.told = Told()
        self.beat_ms = clock()  # when a report was last due
        self._closed = False
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
        """Cut now. While Kafka is away, a report without rows says nothing that will matter; after
        a closing one any other would take back that it has closed.
        """
        gate = self.gate
        self.beat_ms = self._clock()
        if self._closed:
            return
        self._closed = closing
        if len(self.spool) >= BACKLOG and not (gate.rows or gate.streaming or closing):
            return
        cuts = gate.cut(self.beat_ms, closing)
        for cut in cuts:
            self.told.count(cut.report.totals, gate.subjects)
        self.spool.add(cuts)
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
                async with asyncio.timeout_at(due_s):
                    await self._hurry.wait()
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
            append_ms, sent_ms = await deliver(
                self._link, self._topic, partition, head, self._clock
            )
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


async def deliver(
    link: Link, topic: str, partition: int, cut: Cut, clock: Callable[[], int]
) -> tuple[int, int]:
    """Send a report until it is appended, with its age at each try (T5).

    Returns when it was appended, 0 where the broker does not tell, and when it was sent then.
    """
    while True:
        sent_ms = clock()
        key = pool_key(cut.report.pool)
        try:
            return await link.send(topic, partition, key, cut.aged(sent_ms)), sent_ms
        except Unavailable:
            await asyncio.sleep(RETRY_S)
