"""`python -m streams broker`: our broker in the foreground."""

import logging
import os
import signal
from pathlib import Path

import click

from streams.broker.errors import BrokerError
from streams.broker.jars import locked_versions
from streams.broker.server import VERSION, Broker
from streams.config import read_config


@click.command("broker", short_help="Run a Kafka broker of our own.")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=lambda: read_config(os.environ).data / "kafka",
    show_default=".local/kafka",
    help="Folder of its data and log; kept from run to run.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    help="Port on 127.0.0.1.  [default: a free one]",
)
@click.option(
    "--heap-mb",
    type=click.IntRange(128),
    default=512,
    show_default=True,
    help="Java's largest heap, in MiB.",
)
@click.option(
    "--kafka",
    "version",
    type=click.Choice(locked_versions()),
    default=VERSION,
    show_default=True,
    help="Version of Apache Kafka.",
)
def broker_command(data: Path, port: int | None, heap_mb: int, version: str) -> None:
    """Run a real Apache Kafka on this machine until Ctrl-C.

    It needs neither Docker nor an installed Java. The first run downloads 43 MB from Maven
    Central into your cache folder.
    """
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    broker = Broker(data, port, heap_mb, version)
    try:
        serve(broker)
    except BrokerError as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        click.echo("Stopping Kafka")
    finally:
        broker.stop()


def serve(broker: Broker) -> None:
    """Start the broker, say where it is, and stay until it ends.

    It ends only by an interrupt here or by some other hand; the latter raises `BrokerError`.
    """
    bootstrap = broker.start()
    click.echo(f"Kafka {broker.version} is ready on {bootstrap}")
    broker.wait()
    raise BrokerError(f"Kafka ended. The end of {broker.data}/broker.log:\n{broker.tail()}")
