"""Peer (c): a bare aiokafka loop that decodes and folds the same reports; it decides nothing."""

import sys
import time

import uvloop
from aiokafka import AIOKafkaConsumer

from tokenweir.core.pool import new_pool
from tokenweir.core.step import advance, fold
from tokenweir.core.window import roll
from tokenweir.records.usage import UsageReport
from tokenweir.wire import decode


async def main(brokers: str, topic: str, count: int) -> None:
    """Print the records folded in a second, from the first report to the last."""
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=brokers, auto_offset_reset="earliest")
    await consumer.start()
    pool = new_pool("bench")
    folded, began = 0, 0.0
    async for message in consumer:
        record = decode(message.value)
        if not isinstance(record, UsageReport):
            # The first message behind the spec puts it in force.
            advance(pool, message.timestamp)
            fold(pool, record, message.timestamp)
            advance(pool, message.timestamp + 250)
            began = time.perf_counter()
            continue
        pool.clock_ms = max(pool.clock_ms, message.timestamp)
        roll(pool.window, pool.clock_ms)
        fold(pool, record, message.timestamp)
        folded += 1
        if folded == count:
            break
    print(folded / (time.perf_counter() - began))
    await consumer.stop()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
