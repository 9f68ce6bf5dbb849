"""What the events worker sends: ticks, and reports with the age that they have when they go."""

import asyncio
import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from streams.events_partition import OutgoingReport
from streams.partition import Outgoing
from streams.publish import Publisher
from tokenweir.events.read import TICK
from tokenweir.gateway.clock import PoolClock
from tokenweir.gateway.monotonic import boot_ms, wall_ms
from tokenweir.wire import encode

logger = logging.getLogger(__name__)
MOST_AGE_MS = 6 * 86_400_000  # the control plane refuses a report that is older than a week


class Ticks:
    """Writes ticks, and knows from their acknowledgements what time it is at the broker."""

    def __init__(self, brokers: str, topic: str) -> None:
        self.brokers, self.topic = brokers, topic
        self._clock = PoolClock()
        self._producer: AIOKafkaProducer | None = None

    async def write(self, partitions: Iterable[int]) -> None:
        """A tick into each of these partitions; a broker that is away gets none."""
        try:
            await asyncio.gather(*map(self._tick, partitions))
        except KafkaError as error:
            logger.warning("no tick: %s", error)

    def now_ms(self) -> int:
        """The broker's time; this machine's until a tick has been acknowledged."""
        now_ms = self._clock.at(boot_ms())
        return wall_ms() if now_ms is None else now_ms

    async def _tick(self, partition: int) -> None:
        if self._producer is None:
            self._producer = AIOKafkaProducer(bootstrap_servers=self.brokers)
            await self._producer.start()
        sent_ms = boot_ms()
        sent = await self._producer.send_and_wait(self.topic, TICK, partition=partition)
        self._clock.acknowledged(sent.timestamp, sent_ms, boot_ms())


class ReportPublisher(Publisher):
    """Sends reports with their age: they are unchanged but for that (R1)."""

    def __init__(self, brokers: str, ticks: Ticks) -> None:
        super().__init__(brokers)
        self.ticks = ticks

    async def send(self, partition: int, records: Iterable[Outgoing]) -> None:
        """As `Publisher` does it."""
        await super().send(partition, self._aged(records))

    def _aged(self, records: Iterable[Outgoing]) -> Iterator[Outgoing]:
        for record in records:
            if isinstance(record, OutgoingReport) and record.cut is not None:
                age_ms = self.ticks.now_ms() - record.cut.cut_ms
                report = replace(record.cut.report, age_ms=min(max(age_ms, 0), MOST_AGE_MS))
                yield replace(record, value=encode(report))
            else:
                yield record
