"""Where the parts are: options before the environment before the running stack."""

import json
from pathlib import Path

import pytest

from tokenweir.cli.settings import read_settings
from tokenweir.errors import BadInput


def stack(folder: Path) -> Path:
    path = folder / ".local" / "stack.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"brokers": "stack:1", "clickhouse": "http://stack:2"}))
    return path


def test_an_option_goes_before_the_environment_and_that_before_the_stack(tmp_path: Path) -> None:
    stack(tmp_path)
    environ = {"TOKENWEIR_BROKERS": "environment:1"}
    assert read_settings(environ, tmp_path, brokers="option:1").brokers == "option:1"
    found = read_settings(environ, tmp_path)
    assert (found.brokers, found.clickhouse) == ("environment:1", "http://stack:2")


def test_the_stack_is_found_in_a_folder_above(tmp_path: Path) -> None:
    path = stack(tmp_path)
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    found = read_settings({}, below)
    assert (found.brokers, found.stack) == ("stack:1", path)


def test_a_named_data_folder_goes_before_the_search(tmp_path: Path) -> None:
    path = stack(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert read_settings({}, elsewhere, data=path.parent).brokers == "stack:1"
    assert read_settings({"TOKENWEIR_DATA": str(elsewhere)}, tmp_path).brokers is None


def test_a_named_data_folder_without_a_stack_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"--data .*: no stack\.json there; `python -m streams up`"):
        read_settings({}, tmp_path, data=tmp_path)


def test_when_nothing_is_known_the_error_says_the_three_ways(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        read_settings({}, tmp_path).need_brokers()
    for way in ("--brokers HOST:PORT", "TOKENWEIR_BROKERS", "`python -m streams up`"):
        assert way in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_a_broken_stack_file_is_named(tmp_path: Path, text: str) -> None:
    path = stack(tmp_path)
    path.write_text(text)
    with pytest.raises(BadInput, match="remove it"):
        read_settings({}, tmp_path)
