"""Publish records into pools' logs as gateways do: idempotent, acknowledged by all replicas."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError, MessageSizeTooLargeError
from aiokafka.structs import RecordMetadata

from tokenweir.cli.log import silent
from tokenweir.errors import BadInput, Unavailable

LARGEST_BYTES = 64 << 20  # before compression; the broker has its own limit behind it


@dataclass(frozen=True, slots=True)
class Sender:
    """A producer that has been started."""

    brokers: str
    producer: AIOKafkaProducer

    async def send(
        self, partition: TopicPartition, key: bytes | None, value: bytes
    ) -> RecordMetadata:
        """Where the broker has put it, and when; raises `Unavailable` when it has not."""
        try:
            return await self.producer.send_and_wait(
                partition.topic, value, key=key, partition=partition.partition
            )
        except MessageSizeTooLargeError as error:
            raise BadInput(
                f"larger than the broker takes in one record: raise max.message.bytes of the topic "
                f"{partition.topic}"
            ) from error
        except KafkaError as error:
            raise Unavailable(silent(self.brokers)) from error


@asynccontextmanager
async def open_sender(brokers: str) -> AsyncIterator[Sender]:
    """A sender to these brokers; raises `Unavailable` when none of them answers."""
    producer = AIOKafkaProducer(
        bootstrap_servers=brokers,
        acks="all",
        enable_idempotence=True,
        max_request_size=LARGEST_BYTES,
        compression_type="gzip",
    )
    try:
        await producer.start()
        yield Sender(brokers, producer)
    except KafkaError as error:
        raise Unavailable(silent(brokers)) from error
    finally:
        await producer.stop()
