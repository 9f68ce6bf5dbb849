"""Where the parts are: said by options, else by the environment, else by the running stack."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenweir.errors import BadInput

STACK = "stack.json"  # what `python -m streams up` writes into its data folder


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line was told, and where it looked."""

    brokers: str | None = None
    clickhouse: str | None = None
    topic_prefix: str = ""
    stack: Path | None = None  # the running stack's file, when there is one

    def need_brokers(self) -> str:
        """The brokers' addresses; raises `BadInput` that says the three ways to name them."""
        return self.brokers or _missing("Kafka", "--brokers HOST:PORT", "TOKENWEIR_BROKERS")

    def need_clickhouse(self) -> str:
        """ClickHouse's URL; raises `BadInput` that says the three ways to name it."""
        where = "--clickhouse http://HOST:PORT"
        return self.clickhouse or _missing("ClickHouse", where, "TOKENWEIR_CLICKHOUSE")


def read_settings(
    environ: Mapping[str, str],
    folder: Path,
    brokers: str | None = None,
    clickhouse: str | None = None,
    data: Path | None = None,
) -> Settings:
    """The settings; the arguments are the options, `folder` is where the command was started.

    Raises `BadInput` when a data folder is named and no stack has been started from it.
    """
    named = data or _path(environ.get("TOKENWEIR_DATA"))
    stack = named / STACK if named else _upward(folder)
    running = read_stack(stack) if stack and stack.is_file() else {}
    if data and not running:
        raise BadInput(f"--data {data}: no {STACK} there; `python -m streams up` writes one")
    return Settings(
        brokers=brokers or environ.get("TOKENWEIR_BROKERS") or running.get("brokers"),
        clickhouse=clickhouse or environ.get("TOKENWEIR_CLICKHOUSE") or running.get("clickhouse"),
        topic_prefix=environ.get("TOKENWEIR_TOPIC_PREFIX", ""),
        stack=stack if running else None,
    )


def read_stack(path: Path) -> dict[str, Any]:
    """What the running stack says of itself; raises `BadInput` when the file is broken."""
    try:
        stack = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: cannot be read ({error}); remove it") from error
    if not isinstance(stack, dict):
        raise BadInput(f"{path}: not what `python -m streams up` writes; remove it")
    return stack


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def _upward(folder: Path) -> Path | None:
    places = (place / ".local" / STACK for place in (folder, *folder.parents))
    return next((place for place in places if place.is_file()), None)


def _missing(what: str, option: str, variable: str) -> str:
    raise BadInput(
        f"where is {what}? Give {option}, or set {variable}, or start a stack with "
        "`python -m streams up` and run this in its folder or below"
    )
