"""The jars of a Kafka version: named by a lock file, kept in a cache that all checkouts share."""

import hashlib
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from streams.broker import maven
from streams.broker.errors import JarsMissingError, LockError
from streams.broker.maven import Coordinates

log = logging.getLogger(__name__)

LOCKS = Path(__file__).parent

WAYS_TO_A_BROKER = """\
Three ways to get a broker:
  1. network access to Maven Central (through HTTPS_PROXY if need be), then the same command again;
  2. `docker compose up`, which brings Kafka in a container;
  3. an existing cluster: TOKENWEIR_BROKERS=host:port."""


@dataclass(frozen=True, slots=True, order=True)
class Jar:
    """One line of a lock file."""

    coordinates: Coordinates
    sha256: str

    @classmethod
    def parse(cls, line: str) -> "Jar":
        """Read `group:artifact:version sha256`; raises ValueError on anything else."""
        coordinates, _, digest = line.partition(" ")
        if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
            raise ValueError(f"{digest!r} is not a SHA-256 in small hexadecimal digits")
        return cls(Coordinates.parse(coordinates), digest)

    def __str__(self) -> str:
        return f"{self.coordinates} {self.sha256}"

    def intact_in(self, cache: Path) -> bool:
        """Tell whether the cache holds this jar, byte for byte."""
        path = cache / self.coordinates.file
        return path.is_file() and sha256(path) == self.sha256


def sha256(path: Path) -> str:
    """Return the file's SHA-256 in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def user_cache() -> Path:
    """Return the folder of jars in this user's cache folder."""
    home = Path.home()
    caches = home / "Library" / "Caches" if sys.platform == "darwin" else home / ".cache"
    return caches / "tokenweir" / "jars"


def lock_path(version: str) -> Path:
    """Return where the lock file of a Kafka version is: one for each minor version."""
    return LOCKS / f"kafka-{'.'.join(version.split('.')[:2])}.lock"


def read_lock(version: str) -> tuple[Jar, ...]:
    """Return the jars of a Kafka version, in the order of the lock file.

    Raises `LockError` if there is no lock for it, or with the file and line that is wrong.
    """
    path = lock_path(version)
    jars = tuple(_jar(path, at, line) for at, line in _entries(path))
    if version not in (jar.coordinates.version for jar in jars if is_kafka(jar)):
        raise LockError(
            f"Kafka {version} has no lock file; there are {', '.join(locked_versions())}. "
            f"`python -m streams.broker.lock {version}` makes it."
        )
    return jars


def is_kafka(jar: Jar) -> bool:
    """Tell whether this is the jar that the broker starts from."""
    return jar.coordinates.artifact.startswith("kafka_")


def locked_versions() -> list[str]:
    """Return the Kafka versions that have a lock file."""
    paths = sorted(LOCKS.glob("*.lock"))
    jars = (_jar(path, at, line) for path in paths for at, line in _entries(path))
    return [jar.coordinates.version for jar in jars if is_kafka(jar)]


def ready_jars(jars: Sequence[Jar], cache: Path) -> list[Path]:
    """Return the jars' paths in the cache, every one checked, downloading what is not there.

    Safe for several processes at once: a jar appears in the cache whole or not at all.
    Raises `JarsMissingError`, which tells the ways to a broker, if a jar cannot be had.
    """
    wanted = [jar for jar in jars if not jar.intact_in(cache)]
    if wanted:
        _say_why(wanted, cache)
        _fetch(wanted, cache)
    return [cache / jar.coordinates.file for jar in jars]


def _entries(path: Path) -> list[tuple[int, str]]:
    lines = path.read_text().splitlines() if path.exists() else []
    return [(at, line) for at, line in enumerate(lines, 1) if line[:1] != "#"]


def _jar(path: Path, at: int, line: str) -> Jar:
    try:
        return Jar.parse(line)
    except ValueError as error:
        raise LockError(f"{path.name} line {at}: {error}. Renew it: see its first lines.") from None


def _say_why(wanted: Sequence[Jar], cache: Path) -> None:
    for jar in wanted:
        if (cache / jar.coordinates.file).exists():
            log.warning("%s is damaged in %s: downloading it again", jar.coordinates, cache)
    log.info("Downloading %d jars of Kafka from Maven Central", len(wanted))


def _fetch(wanted: Sequence[Jar], cache: Path) -> None:
    try:
        with maven.scratch(cache) as folder:
            came = maven.download([jar.coordinates for jar in wanted], Path(folder))
            for jar, _ in zip(wanted, came, strict=True):
                _move_in(jar, Path(folder), cache)
    except (OSError, RuntimeError) as error:
        raise JarsMissingError(
            f"{len(wanted)} jars of Kafka are not in {cache} and cannot be downloaded: "
            f"{error}\n{WAYS_TO_A_BROKER}"
        ) from error


def _move_in(jar: Jar, folder: Path, cache: Path) -> None:
    """Put a downloaded jar in its place; one rename, so that no other process sees half of it."""
    if not jar.intact_in(folder):
        raise RuntimeError(f"what came as {jar.coordinates} is not what the lock file names")
    target = cache / jar.coordinates.file
    target.parent.mkdir(parents=True, exist_ok=True)
    (folder / jar.coordinates.file).replace(target)
