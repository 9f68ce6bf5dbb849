"""The way to Kafka: one producer, made anew whenever the fate of a record is unknown.

Not an idempotent producer: aiokafka's never gives a record up, so it would append it with the ages
of the first attempt (T5), and its append time would tell a wrong pool time (L6). Reports have
sequences of their own, which drop repeats (R1).
"""

import asyncio
import logging
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from tokenweir.errors import Unavailable

LOG = logging.getLogger(__name__)
ATTEMPT_S = 2.0  # then a record is given up, and sent anew with its age
RETRY_S = 0.5


class Link:
    """Sends records with acks=all, and says when each was appended.

    `trouble` is what is wrong now, in a sentence; empty when nothing is.
    """

    def __init__(self, brokers: str, gateway: str) -> None:
        self.trouble = f"not connected to {brokers} yet"
        self._brokers = brokers
        self._gateway = gateway
        self._producer: Any = None
        self._opening = asyncio.Lock()

    async def partitions(self, topic: str) -> int:
        """How many partitions a topic has; raises `Unavailable` where it is not there."""
        producer = await self._open()
        try:
            async with asyncio.timeout(3 * ATTEMPT_S):
                return len(await producer.partitions_for(topic))
        except (KafkaError, TimeoutError) as error:
            raise self._broken(
                f"no topic {topic} on {self._brokers}: is the control plane running? It makes it"
            ) from error

    async def send(self, topic: str, partition: int | None, key: bytes | None, value: bytes) -> int:
        """Append one record; returns its append time in ms, 0 where the broker does not tell.

        Raises `Unavailable` when its fate is unknown: send it again before any other (R1).
        """
        producer = await self._open()
        try:
            # Not wait_for: up to Python 3.11 it drops a cancellation that comes with the answer.
            async with asyncio.timeout(3 * ATTEMPT_S):
                metadata = await producer.send_and_wait(topic, value, key, partition)
        except (KafkaError, TimeoutError, OSError) as error:
            await self._give_up(producer)
            raise self._broken(f"{self._brokers} does not acknowledge: {error!r}") from error
        self.trouble = ""
        return int(metadata.timestamp) if metadata.timestamp_type == 1 else 0

    async def close(self) -> None:
        """Let go of the producer; what it has not sent is given up."""
        if self._producer is not None:
            await self._give_up(self._producer)

    async def _open(self) -> Any:
        async with self._opening:
            if self._producer is None:
                self._producer = await self._started()
            return self._producer

    async def _started(self) -> Any:
        producer = AIOKafkaProducer(
            bootstrap_servers=self._brokers,
            client_id=self._gateway,
            acks="all",
            request_timeout_ms=int(ATTEMPT_S * 1000),
            max_request_size=2_000_000,
        )
        try:
            async with asyncio.timeout(3 * ATTEMPT_S):
                await producer.start()
        except (KafkaError, TimeoutError, OSError) as error:
            await self._give_up(producer)
            await asyncio.sleep(RETRY_S)  # whoever else wants to send waits for us meanwhile
            raise self._broken(f"cannot reach Kafka at {self._brokers}: {error!r}") from error
        return producer

    async def _give_up(self, producer: Any) -> None:
        if producer is self._producer:
            self._producer = None
        try:
            async with asyncio.timeout(2 * ATTEMPT_S):
                await producer.stop()
        except (KafkaError, TimeoutError, OSError) as error:
            LOG.warning("a producer did not stop cleanly: %r", error)

    def _broken(self, trouble: str) -> Unavailable:
        if trouble != self.trouble:
            LOG.warning("gateway %s: %s", self._gateway, trouble)
        self.trouble = trouble
        return Unavailable(trouble)
