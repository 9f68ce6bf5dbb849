"""The way to Kafka ends when it is told to."""

import asyncio
from typing import Any

import pytest
from aiokafka.errors import KafkaError

from tokenweir.gateway.link import Link


class Producer:
    """Tells a record's fate when the test does."""

    def __init__(self) -> None:
        self.fate: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def send_and_wait(self, *record: Any) -> Any:
        return await self.fate

    async def stop(self) -> None:
        """Nothing is open."""


async def test_a_send_that_is_cancelled_just_when_its_record_is_lost_ends() -> None:
    """It had gone on for ever, and with it a gateway that was stopped while Kafka was away."""
    link = Link("nowhere:1", "edge")
    link._producer = producer = Producer()
    sending = asyncio.create_task(link.send("usage", 0, None, b""))
    for _ in range(3):
        await asyncio.sleep(0)
    producer.fate.set_exception(KafkaError("lost"))
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
