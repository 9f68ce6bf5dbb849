"""The containers of the tests are those of docker-compose.yml."""

from pathlib import Path

import yaml

from tests import containers

COMPOSE = Path(__file__).parents[2] / "docker-compose.yml"


def test_the_tests_run_on_the_images_of_the_compose_file() -> None:
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    assert services["kafka"]["image"] == containers.KAFKA
    assert services["clickhouse"]["image"] == containers.CLICKHOUSE
