"""`python -m streams clickhouse`: a ClickHouse of one's own, in one process."""

import asyncio
import logging
import os
from pathlib import Path

import click

from streams.clickhouse.access import Limits
from streams.config import read_config

_DEFAULTS = Limits()
_MIB = 1 << 20


@click.command("clickhouse")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=lambda: read_config(os.environ).data / "clickhouse",
    show_default=".local/clickhouse",
    help="The folder that keeps the tables; one process at a time.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8123,
    show_default=True,
    help="The port on 127.0.0.1; 0 takes a free one.",
)
@click.option(
    "--memory",
    "memory_mib",
    type=click.IntRange(64),
    metavar="MIB",
    default=_DEFAULTS.memory_bytes // _MIB,
    show_default=True,
    help="What one query may take; all together half as much again.",
)
@click.option(
    "--timeout",
    "execution_s",
    type=click.IntRange(1, _DEFAULTS.longest_s),
    metavar="SECONDS",
    default=_DEFAULTS.execution_s,
    show_default=True,
    help="How long a query may run that does not ask for more.",
)
@click.option(
    "--body",
    "body_mib",
    type=click.IntRange(1),
    metavar="MIB",
    default=_DEFAULTS.body_bytes // _MIB,
    show_default=True,
    help="The largest body of a request, decompressed.",
)
def clickhouse_command(
    data: Path, port: int, memory_mib: int, execution_s: int, body_mib: int
) -> None:
    """Serve ClickHouse's HTTP interface on 127.0.0.1 with the engine in this process (chDB).

    Prints one line when it is ready, and serves until Ctrl-C or SIGTERM.
    """
    from streams.clickhouse.folder import DataFolderError
    from streams.clickhouse.server import serve

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)  # what is no HTTP is no news
    limits = Limits(
        memory_bytes=memory_mib * _MIB,
        total_memory_bytes=memory_mib * _MIB * 3 // 2,
        execution_s=execution_s,
        body_bytes=body_mib * _MIB,
    )
    try:
        asyncio.run(serve(data.absolute(), port, limits, _say_ready))
    except DataFolderError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"Port {port} cannot be used: {error.strerror}.") from error


def _say_ready(version: str, url: str) -> None:
    short = ".".join(version.split(".")[:2])
    click.echo(f"ClickHouse {short} (chDB) is ready on {url}")
