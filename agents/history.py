"""The history agent: usage and journal in, rows in ClickHouse out; nothing waits for it (H3)."""

import asyncio
import logging
import signal
from collections.abc import Awaitable
from contextlib import suppress
from time import monotonic

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError, OffsetOutOfRangeError
from clickhouse_connect.driver.client import Client

from streams.config import Config
from streams.health import Watchdog
from streams.sink import Sink
from streams.worker_metrics import serve_status
from tokenweir.errors import BadInput, Unavailable
from tokenweir.history.client import connect
from tokenweir.history.store import prepare
from tokenweir.topics import Topics

log = logging.getLogger("tokenweir.history")
AIOKAFKA = ("aiokafka", "aiokafka.consumer.fetcher", "aiokafka.consumer.group_coordinator")

GOODBYE_S = 5.0  # for the last inserts at SIGTERM; what they miss is read again
LEAVE_S = 2.0  # to say goodbye to Kafka
REST_S = 1.0  # between tries at the start


async def run(config: Config, metrics_port: int | None = None) -> int:
    """Fill the history until SIGTERM or SIGINT; returns the exit code.

    `metrics_port` is where its health and metrics are served, on loopback.
    Raises `BadInput` for tables that do not fit, and for logs that are not those of the tables.
    """
    if config.brokers is None or config.clickhouse is None:
        raise BadInput(
            "the history needs TOKENWEIR_BROKERS and TOKENWEIR_CLICKHOUSE, or start everything"
            " with `python -m streams up`"
        )
    _quieten()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    watchdog = Watchdog(config.brokers)
    if metrics_port is not None:
        serve_status(metrics_port, watchdog)
    client = await _first_contact(config.clickhouse, stop, watchdog)
    while client is not None and not stop.is_set():
        try:
            await _follow(config, config.brokers, client, stop, watchdog)
        except KafkaConnectionError as error:
            log.warning("waiting: Kafka at %s: %s", config.brokers, error)
            await _rest(stop)
    if client is not None:
        client.close()
    return 0


class Seldom(logging.Filter):
    """Of what aiokafka says while a broker is away, sixty lines a second, one in ten seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.again_s = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is to be written."""
        now_s = monotonic()
        if now_s < self.again_s:
            return False
        self.again_s = now_s + 10
        return True


def _quieten() -> None:
    seldom = Seldom()
    logging.getLogger("aiokafka").setLevel(logging.WARNING)
    for name in AIOKAFKA:
        logging.getLogger(name).addFilter(seldom)


async def _first_contact(url: str, stop: asyncio.Event, watchdog: Watchdog) -> Client | None:
    """The client, its tables ready; None when asked to stop before ClickHouse has answered."""
    told = False
    while not stop.is_set():
        try:
            client = await asyncio.to_thread(connect, url)
            zone = await asyncio.to_thread(prepare, client)
            log.info("ClickHouse answers; its time zone is %s", zone)
            watchdog.told = ""
            return client
        except Unavailable as error:
            if not told:
                log.warning("waiting: %s", error)
            told = True
            watchdog.told = (
                "nothing is written yet: ClickHouse does not answer; the worker's log says why"
            )
            await _rest(stop)
    return None


async def _rest(stop: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(REST_S):
            await stop.wait()


async def _follow(
    config: Config, brokers: str, client: Client, stop: asyncio.Event, watchdog: Watchdog
) -> None:
    topics = Topics(config.topic_prefix)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=brokers,
        group_id=f"{config.application}-history",
        group_instance_id=f"history-{config.worker}",
        client_id=f"{config.application}-history-{config.worker}",
        enable_auto_commit=False,
        auto_offset_reset="none",
        metadata_max_age_ms=10_000,  # topics that are created after us are found soon
    )
    producer = AIOKafkaProducer(
        bootstrap_servers=brokers, enable_idempotence=True, max_request_size=4 << 20
    )
    sink = Sink(client, consumer, producer, topics)
    watchdog.positions = sink.positions
    consumer.subscribe([topics.usage, topics.journal], listener=sink)
    ending = asyncio.create_task(stop.wait())
    try:
        await consumer.start()
        await producer.start()
        work = asyncio.create_task(_work(sink, stop))
        await asyncio.wait((work, ending), return_when=asyncio.FIRST_COMPLETED)
        await _soon(work, GOODBYE_S if stop.is_set() else None)
    finally:
        ending.cancel()
        await sink.leave()
        # In the middle of a fetch that fails, aiokafka's `stop` raises a CancelledError of its own.
        leaving = asyncio.gather(consumer.stop(), producer.stop(), return_exceptions=True)
        await _soon(leaving, LEAVE_S)


async def _work(sink: Sink, stop: asyncio.Event) -> None:
    try:
        while not stop.is_set():
            try:
                await sink.step()
            except OffsetOutOfRangeError as error:
                await sink.refind(list(error.args[0]))
    except Exception:
        await sink.rest()  # a successor of ours must not meet what is still being inserted
        raise
    await sink.finish()


async def _soon(work: Awaitable[object], within_s: float | None) -> None:
    """Wait for it no longer than that: with Kafka gone, nothing that asks it ever ends."""
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            await work
