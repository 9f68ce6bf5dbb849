"""Publishing what decisions say, in order, and knowing when the broker has it."""

import asyncio
from collections.abc import Iterable
from typing import Any

from aiokafka import AIOKafkaProducer

from streams.partition import Outgoing
from streams.topics import LARGE_BYTES

# A broker may be away for so long before the worker gives up and ends.
PATIENCE_MS = 600_000


class Publisher:
    """An idempotent producer: what is sent to one partition arrives in order and without doubles,
    over a broker's restart too. Faust's own producer is not, and is left to its tables.
    """

    def __init__(self, brokers: str) -> None:
        self.brokers = brokers
        self._producer: Any = None
        self._promises: list[asyncio.Future[Any]] = []

    async def _start(self) -> None:
        self._producer = AIOKafkaProducer(
            bootstrap_servers=self.brokers,
            enable_idempotence=True,
            acks="all",
            max_request_size=LARGE_BYTES,
            request_timeout_ms=PATIENCE_MS,
            compression_type="gzip",  # in Python itself: gateways need no other package to read it
        )
        await self._producer.start()

    async def send(self, partition: int, records: Iterable[Outgoing]) -> None:
        """Send in this order, to `partition` unless a record names another.

        Returns when the producer has them, before the broker does.
        """
        if self._producer is None:
            await self._start()
        for record in records:
            home = partition if record.partition is None else record.partition
            promise = await self._producer.send(
                record.topic, record.value, record.key, partition=home
            )
            self._promises.append(promise)

    async def settle(self) -> None:
        """Return when the broker has acknowledged all that was sent; raises Kafka's error if not.

        What is acknowledged in a checkpoint must not be lost with a worker, or decisions that
        nobody would make again would be missing.
        """
        promises, self._promises = self._promises, []
        await asyncio.gather(*promises)

    async def stop(self) -> None:
        """Send what is left and leave."""
        if self._producer is not None:
            await self._producer.stop()
