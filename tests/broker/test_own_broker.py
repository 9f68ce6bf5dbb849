"""Our own broker is a real Kafka: it keeps its data, comes back, and never outlives us."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import psutil
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from streams.broker import Broker, BrokerError
from streams.broker.ports import FREE_PORTS, choose, free_port
from streams.broker.storage import wait_until_unused

pytestmark = pytest.mark.broker


def until(true: Callable[[], bool], what: str, deadline_s: float = 150) -> None:
    end_s = time.monotonic() + deadline_s
    while not true():
        assert time.monotonic() < end_s, f"not within {deadline_s} s: {what}"
        time.sleep(0.05)


def gone(pid: int | None) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def make_topic(bootstrap: str, **configs: str) -> str:
    name = f"t-{uuid4()}"
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(name, 1, 1, topic_configs=configs)])
    finally:
        await admin.close()
    return name


async def write(bootstrap: str, topic: str, *values: bytes) -> list[int]:
    """Return each record's append time, in milliseconds."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
        sent = [await producer.send_and_wait(topic, value, timestamp_ms=1) for value in values]
    return [record.timestamp for record in sent]


async def read(bootstrap: str, topic: str, count: int) -> list[bytes]:
    async with AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest"
    ) as consumer:
        values = [(await consumer.getone()).value for _ in range(count)]
        await consumer.commit()
    return values


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kafka")


@pytest.fixture(scope="module")
def broker(data: Path) -> Iterator[Broker]:
    with Broker(data, heap_mb=256) as running:
        yield running


async def test_records_get_the_time_of_their_append(broker: Broker) -> None:
    topic = await make_topic(broker.bootstrap, **{"message.timestamp.type": "LogAppendTime"})
    before_ms = int(time.time() * 1000)
    (appended_ms,) = await write(broker.bootstrap, topic, b"now")
    assert before_ms <= appended_ms <= time.time() * 1000
    assert await read(broker.bootstrap, topic, 1) == [b"now"]


async def test_a_record_may_have_two_megabytes(broker: Broker) -> None:
    topic = await make_topic(broker.bootstrap)
    large = bytes(2 << 20)
    async with AIOKafkaProducer(
        bootstrap_servers=broker.bootstrap, max_request_size=3 << 20
    ) as producer:
        await producer.send_and_wait(topic, large)
    assert await read(broker.bootstrap, topic, 1) == [large]


async def test_a_topic_is_not_made_by_a_slip_of_its_name(broker: Broker) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await admin.start()
    await admin.describe_topics(["mispelt"])
    assert "mispelt" not in await admin.list_topics()
    await admin.close()


def test_a_running_broker_cannot_be_started_again(broker: Broker) -> None:
    with pytest.raises(BrokerError, match="runs already"):
        broker.start()


def test_data_that_a_broker_uses_is_refused_to_another(broker: Broker, data: Path) -> None:
    with pytest.raises(BrokerError, match=f"Another broker uses {data}: stop it, or name"):
        wait_until_unused(data / "topics", wait_s=0.2)


async def test_topics_and_records_outlive_a_stop_and_the_object(broker: Broker, data: Path) -> None:
    topic = await make_topic(broker.bootstrap)
    await write(broker.bootstrap, topic, b"one")
    broker.stop()
    assert not broker.running
    port = free_port()
    with Broker(data, port, heap_mb=256) as again:
        assert again.bootstrap == f"127.0.0.1:{port}"
        assert await read(again.bootstrap, topic, 1) == [b"one"]
    broker.start()


@pytest.mark.chaos
async def test_a_killed_broker_comes_back_on_its_port_with_all_it_acknowledged(
    broker: Broker,
) -> None:
    topic = await make_topic(broker.bootstrap)
    await write(broker.bootstrap, topic, b"one", b"two")
    before, pid = broker.bootstrap, broker.pid
    broker.kill()
    assert gone(pid)
    assert broker.start() == before
    await write(broker.bootstrap, topic, b"three")
    assert await read(broker.bootstrap, topic, 3) == [b"one", b"two", b"three"]


def test_a_port_that_is_taken_is_named_with_what_to_do(broker: Broker, tmp_path: Path) -> None:
    port = int(broker.bootstrap.split(":")[1])
    with pytest.raises(BrokerError, match=f"Port {port} on 127.0.0.1 is taken by another process"):
        Broker(tmp_path, port).start()


def test_free_ports_are_two_and_not_among_those_of_outgoing_connections() -> None:
    chosen = choose(None)
    assert chosen.client != chosen.controller
    assert {chosen.client, chosen.controller} <= set(FREE_PORTS)


def test_a_broker_without_a_port_yet_says_so(tmp_path: Path) -> None:
    with pytest.raises(BrokerError, match="no port before its first start"):
        _ = Broker(tmp_path).bootstrap


def test_a_deadline_that_passes_shows_the_end_of_the_log(tmp_path: Path) -> None:
    hasty = Broker(tmp_path, heap_mb=256)
    with pytest.raises(BrokerError, match=r"not ready in time\. The end of .*broker\.log"):
        hasty.start(deadline_s=0)
    assert not hasty.running


@pytest.mark.chaos
def test_the_command_serves_until_its_interrupt_and_leaves_no_java_when_killed(
    tmp_path: Path,
) -> None:
    for ending, code, words in (
        (signal.SIGINT, 0, "Stopping Kafka\n"),
        (signal.SIGKILL, -signal.SIGKILL, ""),
    ):
        command = [sys.executable, "-m", "streams.broker", "--data", str(tmp_path / "kafka")]
        port = free_port()
        with subprocess.Popen(
            [*command, "--port", str(port)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == f"Kafka 4.4.0 is ready on 127.0.0.1:{port}\n"
            family = psutil.Process(process.pid).children(recursive=True)
            assert [member.name() for member in family].count("java") == 1
            process.send_signal(ending)
            assert process.stdout.read() == words
            assert process.wait(150) == code
        until(lambda: all(gone(member.pid) for member in family), "the end of Java")  # noqa: B023


async def test_the_older_kafka_serves_the_same_clients(tmp_path: Path) -> None:
    with Broker(tmp_path, heap_mb=256, version="3.9.1") as older:
        topic = await make_topic(older.bootstrap)
        await write(older.bootstrap, topic, b"one")
        assert await read(older.bootstrap, topic, 1) == [b"one"]
