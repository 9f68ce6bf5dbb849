"""Renew a lock file: `python -m streams.broker.lock 4.4.0`.

The versions come from the release's own POM, so the same release always gives the same file.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from streams.broker import maven
from streams.broker.jars import Jar, lock_path, sha256
from streams.broker.maven import Coordinates

RUN_TIME = ("compile", "runtime")


def closure(client: Any, root: Coordinates) -> set[Coordinates]:
    """Return a jar and all that it needs to run, in the versions that its POM asks for.

    `pom_dependency_list` reads the real POM. jgo's `resolve` wraps it in a POM of its own whose
    managed versions win, and then picks the clients of another release.
    """
    pom = client.project(root.group, root.artifact).at_version(root.version).pom()
    tree, _ = client.pom_dependency_list(pom)
    return {root} | {_coordinates(dependency) for dependency in _needed(tree)}


def _needed(node: Any) -> Iterator[Any]:
    """Yield what is needed below a node; what is not needed at run time hides all below it."""
    for child in node.children:
        if child.dep.scope in RUN_TIME:
            yield child.dep
            yield from _needed(child)


def _coordinates(dependency: Any) -> Coordinates:
    if dependency.classifier:
        raise ValueError(f"{dependency} has a classifier, which a lock file cannot hold")
    return Coordinates(dependency.groupId, dependency.artifactId, dependency.version)


def log_binding(jars: set[Coordinates]) -> Coordinates:
    """Return what carries the broker's log lines: log4j 2 for Kafka 4, reload4j for Kafka 3."""
    versions = {jar.artifact: jar.version for jar in jars}
    if "log4j-core" in versions:
        return Coordinates("org.apache.logging.log4j", "log4j-slf4j-impl", versions["log4j-core"])
    return Coordinates("org.slf4j", "slf4j-reload4j", versions["slf4j-api"])


def resolve(client: Any, version: str) -> list[Coordinates]:
    """Return every jar of a Kafka version's broker, sorted, each artifact in one version."""
    jars = closure(client, Coordinates("org.apache.kafka", "kafka_2.13", version))
    known = {(jar.group, jar.artifact) for jar in jars}
    binding = closure(client, log_binding(jars))
    return sorted(jars | {jar for jar in binding if (jar.group, jar.artifact) not in known})


def text(version: str, jars: list[Jar]) -> str:
    """Return the lock file's content."""
    head = (
        f"# The broker of Kafka {version}: group:artifact:version SHA-256, one jar a line.\n"
        f"# Renewed by `python -m streams.broker.lock {version}`; do not edit.\n"
    )
    return head + "".join(f"{jar}\n" for jar in jars)


def renew(version: str) -> Path:
    """Resolve, download and hash a version's jars; write its lock file and return the path."""
    with TemporaryDirectory() as folder:
        repository = Path(folder)
        came = maven.download(resolve(maven.context(repository), version), repository)
        jars = [Jar(jar, sha256(repository / jar.file)) for jar in came]
    path = lock_path(version)
    path.write_text(text(version, jars))
    return path


def main() -> None:
    """Renew the lock of each version named on the command line."""
    if not sys.argv[1:]:
        raise SystemExit("usage: python -m streams.broker.lock VERSION...   (such as 4.4.0)")
    for version in sys.argv[1:]:
        print(renew(version))


if __name__ == "__main__":
    main()
