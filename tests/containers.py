"""Kafka and ClickHouse as containers, where there is a Docker engine.

The images' versions stand here only; a test compares them with docker-compose.yml.
"""

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from gc import collect
from warnings import catch_warnings, simplefilter

from docker import from_env
from docker.errors import DockerException
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import HttpWaitStrategy, LogMessageWaitStrategy

KAFKA = "apache/kafka:4.4.0"
CLICKHOUSE = "clickhouse/clickhouse-server:26.9"
USER = PASSWORD = "tokenweir"


@cache
def why_not() -> str | None:
    """Why containers cannot be had here; None if they can."""
    with catch_warnings():
        simplefilter("ignore", ResourceWarning)  # a client that finds no engine leaves its socket
        try:
            with closing(from_env()) as client:
                client.ping()
        except DockerException as error:
            return f"no Docker engine answers: {error}"
        finally:
            collect()
    return None


@contextmanager
def kafka() -> Iterator[str]:
    """One Kafka node; yields `host:port`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    settings = {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
        "KAFKA_LISTENERS": f"CLIENT://:{port},CONTROLLER://:9093",
        "KAFKA_ADVERTISED_LISTENERS": f"CLIENT://127.0.0.1:{port}",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "CLIENT",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    }
    container = DockerContainer(KAFKA).with_bind_ports(port, port).with_envs(**settings)
    with container.waiting_for(LogMessageWaitStrategy("Kafka Server started")):
        yield f"127.0.0.1:{port}"


@contextmanager
def clickhouse() -> Iterator[str]:
    """One ClickHouse server; yields its URL, with the user in it."""
    settings = {
        "CLICKHOUSE_USER": USER,
        "CLICKHOUSE_PASSWORD": PASSWORD,
        "CLICKHOUSE_DEFAULT_ACCESS_MANAGEMENT": "1",
    }
    container = DockerContainer(CLICKHOUSE).with_exposed_ports(8123).with_envs(**settings)
    with container.waiting_for(HttpWaitStrategy(8123, "/ping")):
        host, port = container.get_container_host_ip(), container.get_exposed_port(8123)
        yield f"http://{USER}:{PASSWORD}@{host}:{port}"
