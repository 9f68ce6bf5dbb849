import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import chdb
import pytest
import yaml

from streams.broker.server import VERSION
from streams.config import read_config

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    text = (CHECKOUT / "docker-compose.yml").read_text()
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def test_containers_run_the_versions_that_the_tests_run(compose: dict[str, Any]) -> None:
    images = {name: service["image"] for name, service in compose["services"].items()}

    assert images["kafka"] == f"apache/kafka:{VERSION}"
    engine = ".".join(chdb.engine_version.split(".")[:2])
    assert images["clickhouse"] == f"clickhouse/clickhouse-server:{engine}"


def docker_compose(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = ["docker", "compose", *arguments]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=60)


def test_dockers_own_client_accepts_it() -> None:
    if shutil.which("docker") is None or docker_compose("version").returncode:
        pytest.skip("there is no `docker compose` here")
    done = docker_compose("config", "--quiet")
    assert done.returncode == 0, done.stderr


def test_our_containers_get_settings_that_we_read(compose: dict[str, Any]) -> None:
    for name in ("control", "history", "quotas", "demo"):
        environment = compose["services"][name]["environment"]
        plain = {
            key: re.sub(r"\$\{\w+:-(\w+)\}", r"\1", value) for key, value in environment.items()
        }

        config = read_config(plain)

        assert config.brokers == "kafka:9092"
        assert config.clickhouse == "http://tokenweir:tokenweir@clickhouse:8123"
        assert config.data == Path("/data")


def test_stores_have_health_checks_and_volumes_and_are_waited_for(compose: dict[str, Any]) -> None:
    services, volumes = compose["services"], compose["volumes"]

    for name in ("kafka", "clickhouse"):
        assert services[name]["healthcheck"]["test"][0] == "CMD"
        assert services[name]["volumes"][0].split(":")[0] in volumes
    for name in ("control", "history", "quotas"):
        waits = services[name]["depends_on"]
        assert {waits[store]["condition"] for store in waits} == {"service_healthy"}


def test_workers_are_asked_for_their_own_health(compose: dict[str, Any]) -> None:
    for name in ("control", "history", "quotas"):
        service = compose["services"][name]
        *asked, port = service["command"]
        assert asked == [name, "--metrics-port"]
        assert f"http://127.0.0.1:{port}/healthz" in service["healthcheck"]["test"][-1]


def test_every_port_is_on_loopback_only(compose: dict[str, Any]) -> None:
    ports = [port for service in compose["services"].values() for port in service.get("ports", [])]

    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_image_does_not_run_as_root() -> None:
    lines = (CHECKOUT / "Dockerfile").read_text().splitlines()

    users = [line for line in lines if line.startswith("USER ")]
    assert users == ["USER tokenweir"]
    assert lines.index("USER tokenweir") < next(
        at for at, line in enumerate(lines) if line.startswith("ENTRYPOINT")
    )
