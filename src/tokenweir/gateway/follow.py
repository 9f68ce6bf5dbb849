"""Follows the control topic: reads it from the beginning, hands on what is meant for us."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from tokenweir.errors import BadRecord
from tokenweir.gateway.hearing import ControlRecord
from tokenweir.records.control import Barred, ControlDecision, GatewayLeases, Roster
from tokenweir.records.journal import DeadLetter
from tokenweir.topics import barred_key, pool_key, roster_key
from tokenweir.wire import decode_as

LOG = logging.getLogger(__name__)
SILENT_S = 30.0  # then the consumer is made anew: one that hangs looks just like a silent topic
RETRY_S = 0.5

Kind: TypeAlias = type[ControlDecision] | type[GatewayLeases] | type[Barred] | type[Roster]


class Keys:
    """Tells from a key alone which pool a control record is for, and whether it is for us."""

    def __init__(self, pools: tuple[str, ...], gateway: str) -> None:
        self._kinds: dict[bytes, tuple[str, Kind]] = {}
        self._leases: dict[bytes, str] = {}
        for pool in pools:
            self._kinds[pool_key(pool)] = (pool, ControlDecision)
            self._kinds[barred_key(pool)] = (pool, Barred)
            self._kinds[roster_key(pool)] = (pool, Roster)
            self._leases[f"{pool}/{gateway}".encode()] = pool

    def find(self, key: bytes | None) -> tuple[str, Kind] | None:
        """Pool and kind; None for what is meant for others."""
        if key is None:
            return None
        found = self._kinds.get(key)
        if found is not None:
            return found
        pool = self._leases.get(key.rpartition(b"/")[0])
        return None if pool is None else (pool, GatewayLeases)


class Follower:
    """Reads the partitions of our pools, without a group, for as long as it runs."""

    def __init__(
        self,
        brokers: str,
        topic: str,
        keys: Keys,
        hear: Callable[[str, ControlRecord], None],
        forget: Callable[[str], None],
        dead: Callable[[DeadLetter], None],
        reader: str,
    ) -> None:
        self._brokers = brokers
        self._topic = topic
        self._keys = keys
        self._hear = hear
        self._forget = forget
        self._dead = dead
        self._reader = reader

    async def run(self, partitions: set[int]) -> None:
        """Follow until cancelled; a broker that goes away and comes back is followed again."""
        while True:
            try:
                await self._follow({TopicPartition(self._topic, p) for p in partitions})
            except (KafkaError, OSError, TimeoutError) as error:
                LOG.warning("%s cannot follow %s: %r", self._reader, self._topic, error)
            await asyncio.sleep(RETRY_S)

    async def _follow(self, partitions: set[TopicPartition]) -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._brokers,
            client_id=self._reader.replace(" ", "-"),
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=4_000_000,
        )
        consumer.assign(partitions)
        try:
            await consumer.start()
            await consumer.seek_to_beginning()
            await self._read(consumer)
        finally:
            await consumer.stop()

    async def _read(self, consumer: Any) -> None:
        loop = asyncio.get_running_loop()
        heard_s = loop.time()
        while loop.time() - heard_s < SILENT_S:
            batches: Mapping[Any, Any] = await consumer.getmany(timeout_ms=1000)
            for records in batches.values():
                heard_s = loop.time()
                for record in records:
                    self._take(record)
                    await asyncio.sleep(0)  # requests go on between two large records

    def _take(self, record: Any) -> None:
        found = self._keys.find(record.key)
        if found is None:
            return
        pool, kind = found
        if record.value is None:
            if kind is GatewayLeases:
                self._forget(pool)
            return
        try:
            self._hear(pool, _decoded(kind, pool, record.value))
        except BadRecord as error:
            self._dead(_dead_letter(record, str(error), self._reader))


def _decoded(kind: Kind, pool: str, value: bytes) -> ControlRecord:
    decoded = decode_as(kind, value)
    if decoded.pool != pool:
        raise BadRecord(f"its pool is {decoded.pool!r}, its key says {pool!r}")
    return decoded


def _dead_letter(record: Any, reason: str, reader: str) -> DeadLetter:
    return DeadLetter(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp,
        key=record.key,
        value=record.value,
        reason=reason,
        reader=reader,
    )
