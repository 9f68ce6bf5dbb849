"""Files of Maven Central, by coordinates, through jgo's client."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

THREADS = 8
TIMEOUT_S = 30


@dataclass(frozen=True, slots=True, order=True)
class Coordinates:
    """Where a jar is in a Maven repository."""

    group: str
    artifact: str
    version: str

    @classmethod
    def parse(cls, text: str) -> "Coordinates":
        """Read `group:artifact:version`; raises ValueError on anything else."""
        parts = text.split(":")
        if len(parts) != 3 or not all(parts):
            raise ValueError(f"{text!r} is not group:artifact:version")
        return cls(*parts)

    def __str__(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def file(self) -> Path:
        """The jar's path below the root of a repository or a cache."""
        folder = Path(*self.group.split("."), self.artifact, self.version)
        return folder / f"{self.artifact}-{self.version}.jar"


def context(repository: Path) -> Any:
    """Return jgo's client, which keeps what it downloads below `repository`."""
    # jgo costs half a second to import, and a start from a full cache has no use for it.
    from jgo.maven import MavenContext

    return MavenContext(repo_cache=repository, timeout=TIMEOUT_S)


def download(wanted: Iterable[Coordinates], repository: Path) -> Iterator[Coordinates]:
    """Download jars into `repository`, which holds none of them, eight at a time.

    Yields each that is there, in the order asked for. Raises what jgo raises: `RuntimeError` for a
    jar that Maven Central does not have, `OSError` for a network that is not there.
    """
    client = context(repository)

    def fetch(jar: Coordinates) -> Coordinates:
        component = client.project(jar.group, jar.artifact).at_version(jar.version)
        client.resolver.download(component.artifact())
        return jar

    with ThreadPoolExecutor(THREADS, "jar") as threads:
        yield from threads.map(fetch, wanted)


def scratch(beside: Path) -> AbstractContextManager[str]:
    """Return a folder that is removed afterwards, on the file system of `beside`."""
    beside.mkdir(parents=True, exist_ok=True)
    return TemporaryDirectory(prefix=".download-", dir=beside)
