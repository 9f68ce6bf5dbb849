"""Where our own broker and ClickHouse keep what they have, when they are started alone."""

from pathlib import Path

import click
import pytest

from streams.broker.command import broker_command
from streams.clickhouse.command import clickhouse_command


@pytest.mark.parametrize(
    ("command", "folder"), [(broker_command, "kafka"), (clickhouse_command, "clickhouse")]
)
def test_a_part_that_is_started_alone_uses_the_folder_of_the_configuration(
    command: click.Command, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKENWEIR_DATA", str(tmp_path))
    assert command.make_context(folder, []).params["data"] == tmp_path / folder
    elsewhere = ["--data", str(tmp_path / "elsewhere")]
    assert command.make_context(folder, elsewhere).params["data"] == tmp_path / "elsewhere"
