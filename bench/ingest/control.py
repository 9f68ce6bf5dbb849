"""Our lane: one control worker, started as its users start it, decisions included."""

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from aiokafka import AIOKafkaConsumer

from tokenweir.records.journal import DecisionEntry, JournalEntry
from tokenweir.topics import Topics
from tokenweir.wire import decode_as

CHECKOUT = Path(__file__).parents[2]
DEADLINE_S = 240


async def measure(brokers: str, prefix: str, count: int) -> float:
    """Reports folded in a second, from the first decision in the backlog to the last.

    Decisions name each gateway's last sequence, and the journal when it was appended: what lies
    between two of them was folded, decided on and published in that time.
    """
    with tempfile.TemporaryDirectory(prefix="tokenweir-bench-") as data:
        worker = subprocess.Popen(  # noqa: ASYNC220 - started once, before anything is awaited
            [sys.executable, "-m", "streams", "control"],
            cwd=CHECKOUT,
            env={
                **os.environ,
                "TOKENWEIR_BROKERS": brokers,
                "TOKENWEIR_TOPIC_PREFIX": prefix,
                "TOKENWEIR_APPLICATION": f"{prefix}control",
                "TOKENWEIR_DATA": data,
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            return await asyncio.wait_for(
                _watch(brokers, Topics(prefix).journal, count), DEADLINE_S
            )
        finally:
            worker.terminate()
            worker.wait(30)


async def _watch(brokers: str, topic: str, count: int) -> float:
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=brokers,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=2**23,
    )
    await consumer.start()
    points: list[tuple[int, int]] = []  # appended ms, reports folded
    try:
        async for message in consumer:
            body = decode_as(JournalEntry, message.value).body
            if isinstance(body, DecisionEntry):
                points.append((message.timestamp, sum(body.gateways.sequence)))
                if points[-1][1] >= count:
                    break
    finally:
        await consumer.stop()
    (began, before), (ended, after) = next(point for point in points if point[1]), points[-1]
    return (after - before) * 1000 / max(ended - began, 1)
