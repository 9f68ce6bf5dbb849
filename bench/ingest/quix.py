"""Peer (b): Quix Streams, one record a request, a tumbling window of a minute."""

import sys
import tempfile
import time
from typing import Any

from quixstreams import Application

brokers, topic, count = sys.argv[1], sys.argv[2], int(sys.argv[3])


def main() -> None:
    """Print the records aggregated in a second, from the first to the last."""
    app = Application(
        broker_address=brokers,
        consumer_group=f"bench-{topic}",
        auto_offset_reset="earliest",
        state_dir=tempfile.mkdtemp(prefix="tokenweir-bench-"),
        auto_create_topics=True,
        loglevel="ERROR",
    )
    seen, began = 0, 0.0

    def watch(value: Any) -> None:
        nonlocal seen, began
        began = began or time.perf_counter()
        seen += 1
        if seen == count:
            print(seen / (time.perf_counter() - began), flush=True)

    frame = app.dataframe(app.topic(topic, value_deserializer="json", key_deserializer="str"))
    frame = frame.apply(lambda row: row["input"] + row["output"])
    frame.tumbling_window(60_000).sum().current().update(watch)
    app.run(count=count)


if __name__ == "__main__":
    main()
