"""Peer (a): plain Faust, one record a request, into a windowed table; memory store and uvloop."""

import os
import sys
import tempfile
import time
from typing import Any

import mode.loop

mode.loop.use("uvloop")  # before anything makes a loop

import faust  # noqa: E402

brokers, topic, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
app = faust.App(
    f"bench-{topic}",
    broker=f"kafka://{brokers}",
    store="memory://",
    topic_partitions=8,
    web_enabled=False,
    datadir=tempfile.mkdtemp(prefix="tokenweir-bench-"),
    consumer_auto_offset_reset="earliest",
)
source = app.topic(topic, key_type=bytes, value_serializer="json")
usage = app.Table(f"{topic}-usage", default=int, partitions=8).tumbling(60.0, expires=120.0)


@app.agent(source, name="usage")
async def aggregate(records: Any) -> None:
    """Add up the tokens of each tenant and minute."""
    done, began = 0, 0.0
    async for record in records:
        began = began or time.perf_counter()
        usage[record["tenant"]] += record["input"] + record["output"]
        done += 1
        if done == count:
            # Faust takes `print` for its log; an orderly end would take seconds.
            os.write(1, f"{done / (time.perf_counter() - began)}\n".encode())
            os._exit(0)


if __name__ == "__main__":
    faust.Worker(app, loglevel="error", quiet=True).execute_from_commandline()
