from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.clickhouse import LocalClickHouse


@pytest.fixture(scope="session")
def clickhouse_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a ClickHouse on an empty folder, shared by all tests: name your own tables."""
    data: Path = tmp_path_factory.mktemp("clickhouse")
    with LocalClickHouse(data) as server:
        yield server.url
