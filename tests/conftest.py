"""What tests on real parts run on: one broker and one ClickHouse a session.

TOKENWEIR_BROKERS and TOKENWEIR_CLICKHOUSE name some that run already. Otherwise they are our own,
and the same suites run once more on containers where there is a Docker engine.
"""

import os
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import settings

from tests import containers

settings.load_profile("ci")  # the same examples each time, and no bounds in wall time


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--full", action="store_true", help="experiments at full size, which takes half an hour"
    )


@pytest.fixture(scope="session")
def full(pytestconfig: pytest.Config) -> bool:
    """Experiments run at full size: `make experiments`."""
    return bool(pytestconfig.getoption("--full"))


def choices(variable: str) -> list[Any]:
    given = os.environ.get(variable)
    return ["own", container()] if given is None else [pytest.param(given, id="given")]


def container() -> Any:
    """The choice of a container, which a mark skips where there is no Docker engine: a fixture that
    skipped would first have pytest end what runs already, to be started anew for the next file.
    """
    reason = containers.why_not()
    skipped = pytest.mark.skipif(reason is not None, reason=reason or "")
    return pytest.param("container", marks=[pytest.mark.containers, skipped])


@pytest.fixture(scope="session", params=choices("TOKENWEIR_BROKERS"))
def brokers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A broker's `host:port`."""
    if request.param == "container":
        with containers.kafka() as address:
            yield address
    elif request.param == "own":
        from streams.broker import Broker

        with Broker(tmp_path_factory.mktemp("kafka")) as broker:
            yield broker.bootstrap
    else:
        yield request.param


@pytest.fixture(scope="session", params=choices("TOKENWEIR_CLICKHOUSE"))
def clickhouse_url(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A ClickHouse's `http://host:port`."""
    if request.param == "container":
        with containers.clickhouse() as url:
            yield url
    elif request.param == "own":
        from streams.clickhouse import LocalClickHouse

        with LocalClickHouse(tmp_path_factory.mktemp("clickhouse")) as clickhouse:
            yield clickhouse.url
    else:
        yield request.param


@pytest.fixture
def prefix() -> str:
    """Put before the topics' names, so that no two tests meet."""
    return f"t{uuid4().hex[:8]}-"


@pytest.fixture
def database(clickhouse_url: str) -> Iterator[str]:
    """The URL of an empty database in it."""
    from tokenweir.history.client import connect

    name = f"test_{uuid4().hex[:12]}"
    client = connect(clickhouse_url)
    client.command(f"CREATE DATABASE {name}")
    yield f"{clickhouse_url}/{name}"
    client.command(f"DROP DATABASE {name}")
    client.close()
