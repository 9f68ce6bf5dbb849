"""The broker's jars: the lock files, and a cache that mends itself."""

import gc
import hashlib
import logging
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from streams.broker import jars
from streams.broker.errors import JarsMissingError, LockError
from streams.broker.jars import Jar, locked_versions, read_lock, ready_jars
from streams.broker.lock import text

SMALL = Jar.parse(  # 41 kB
    "org.slf4j:slf4j-api:1.7.36 d3ef575e3e4979678dc01bf1dcce51021493b4d11fb7f1be8ad982877c16a1c0"
)
GET_SMALL = f"""
import sys
from pathlib import Path
from streams.broker.jars import Jar, ready_jars
ready_jars([Jar.parse({str(SMALL)!r})], Path(sys.argv[1]))
"""


def lock_with(monkeypatch: pytest.MonkeyPatch, folder: Path, content: str) -> None:
    monkeypatch.setattr(jars, "LOCKS", folder)
    (folder / "kafka-4.4.lock").write_text(content)


@pytest.mark.parametrize("version", ["3.9.1", "4.4.0"])
def test_a_lock_file_reads_back_as_it_was_written(version: str) -> None:
    locked = read_lock(version)
    assert text(version, list(locked)) == jars.lock_path(version).read_text()
    assert sorted(locked) == list(locked)


@pytest.mark.parametrize("version", ["3.9.1", "4.4.0"])
def test_a_lock_file_names_each_artifact_once_and_all_of_kafka_in_one_version(version: str) -> None:
    places = [jar.coordinates for jar in read_lock(version)]
    assert len({(place.group, place.artifact) for place in places}) == len(places)
    assert {place.version for place in places if place.group == "org.apache.kafka"} == {version}


def test_a_version_without_a_lock_file_is_told_how_to_get_one() -> None:
    assert locked_versions() == ["3.9.1", "4.4.0"]
    with pytest.raises(LockError, match=r"4\.9\.9 has no lock file; there are 3\.9\.1, 4\.4\.0.*"):
        read_lock("4.9.9")


@pytest.mark.parametrize(
    "line", ["slf4j-api:1.7.36 " + "a" * 64, "a:b:c", "a:b:c " + "A" * 64, "a:b:c " + "a" * 63, ""]
)
def test_a_damaged_lock_file_is_refused_with_its_line(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock_with(monkeypatch, tmp_path, f"# a comment\n{line}\n")
    with pytest.raises(LockError, match=r"kafka-4\.4\.lock line 2: "):
        read_lock("4.4.0")


def test_a_missing_jar_is_downloaded_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    (path,) = ready_jars([SMALL], tmp_path)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == SMALL.sha256
    assert ready_jars([SMALL], tmp_path) == [path]
    assert caplog.messages == ["Downloading 1 jars of Kafka from Maven Central"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["org"]


def test_a_damaged_jar_is_downloaded_again_and_said_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (path,) = ready_jars([SMALL], tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    assert ready_jars([SMALL], tmp_path) == [path]
    assert hashlib.sha256(path.read_bytes()).hexdigest() == SMALL.sha256
    damaged = f"org.slf4j:slf4j-api:1.7.36 is damaged in {tmp_path}: downloading it again"
    assert caplog.messages == [damaged]


def test_two_processes_fill_one_cache_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", GET_SMALL, str(tmp_path)]
    processes = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait(60) for process in processes] == [0, 0]
    assert SMALL.intact_in(tmp_path)


def test_what_is_not_what_the_lock_names_never_enters_the_cache(tmp_path: Path) -> None:
    other = replace(SMALL, sha256="0" * 64)
    with pytest.raises(JarsMissingError, match="is not what the lock file names"):
        ready_jars([other], tmp_path)
    assert list(tmp_path.iterdir()) == []


# jgo 3.2 leaves the connection of a refused download to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_jars_that_cannot_be_had_tell_the_three_ways_to_a_broker(tmp_path: Path) -> None:
    absent = replace(SMALL, coordinates=replace(SMALL.coordinates, version="0.0.0"))
    with pytest.raises(JarsMissingError) as error:
        ready_jars([absent], tmp_path)
    message = str(error.value)
    for way in ("Maven Central", "docker compose up", "TOKENWEIR_BROKERS=host:port"):
        assert way in message
    del error
    gc.collect()
