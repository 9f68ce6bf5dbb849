"""The options that commands share, and the settings that follow from them."""

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from tokenweir.cli.settings import read_settings

Command = TypeVar("Command", bound=Callable[..., Any])

OPTIONS = {
    "brokers": click.option(
        "--brokers", metavar="HOST:PORT", help="Kafka. Else TOKENWEIR_BROKERS, or the stack here."
    ),
    "clickhouse": click.option(
        "--clickhouse", metavar="URL", help="Else TOKENWEIR_CLICKHOUSE, or the stack here."
    ),
    "data": click.option(
        "--data",
        metavar="FOLDER",
        type=click.Path(path_type=Path),
        help="Folder of the running stack. Else TOKENWEIR_DATA, or the nearest .local upward.",
    ),
}
POOL = click.option("--pool", metavar="NAME", help="Only this pool.")
OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="json: exact numbers, with their units in the keys.",
)


def connected(*names: str) -> Callable[[Command], Callable[..., Any]]:
    """Give a command these options, and the settings that follow from them."""

    def decorate(command: Command) -> Callable[..., Any]:
        @wraps(command)
        def run(**given: Any) -> Any:
            said = {name: given.pop(name) for name in (*names, "data")}
            return command(read_settings(os.environ, Path.cwd(), **said), **given)

        result: Callable[..., Any] = run
        for name in ("data", *names):
            result = OPTIONS[name](result)
        return result

    return decorate
