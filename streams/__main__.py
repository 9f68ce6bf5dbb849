"""`python -m streams`: the parts of a deployment, each a command.

A command's module is imported when the command is used, so that one broken part, or one that is not
installed, leaves the others alone.
"""

import asyncio
import logging
import os
import sys
from importlib import import_module

import click

from streams.config import read_config
from tokenweir.errors import TokenweirError

# Name: module, attribute, what it does.
COMMANDS = {
    "up": ("streams.demo.command", "up_command", "Start the whole stack, without a load."),
    "demo": ("streams.demo.command", "demo_command", "Show a shared pool under load."),
    "broker": ("streams.broker.command", "broker_command", "Run a Kafka broker of our own."),
    "clickhouse": (
        "streams.clickhouse.command",
        "clickhouse_command",
        "Run a ClickHouse of our own.",
    ),
    "topics": (__name__, "topics_command", "Create and check the topics."),
    "control": (__name__, "control_command", "Run one control worker."),
    "events": (__name__, "events_command", "Gather single events of other gateways."),
    "quotas": (__name__, "quotas_command", "Share quotas between pools."),
    "history": (__name__, "history_command", "Run the history agent."),
}


class Parts(click.Group):
    """Commands that are imported when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in COMMANDS.items()])


@click.command("streams", cls=Parts)
def streams() -> None:
    """Run the parts of Tokenweir. TOKENWEIR_… variables say where they are."""


@click.command("topics")
def topics_command() -> None:
    """Create the topics that are missing and check the settings of all; exits 1 on a mismatch."""
    from streams.worker import ready_topics

    ready_topics(read_config(os.environ))
    click.echo("all topics are as they must be")


METRICS_PORT = click.option(
    "--metrics-port",
    type=click.IntRange(1, 65535),
    help="Serve /metrics and /healthz on loopback.",
)


@click.command("control")
@METRICS_PORT
def control_command(metrics_port: int | None) -> None:
    """Run one control worker: fold usage, decide, publish. TOKENWEIR_WORKER names it."""
    from agents.control import run_control

    run_control(read_config(os.environ), metrics_port=metrics_port)


@click.command("events")
@METRICS_PORT
def events_command(metrics_port: int | None) -> None:
    """Gather the events of gateways in other languages into reports. TOKENWEIR_WORKER names it."""
    from agents.events import run_events

    run_events(read_config(os.environ), metrics_port)


@click.command("quotas")
@METRICS_PORT
def quotas_command(metrics_port: int | None) -> None:
    """Give each pool its part of quotas that several pools share. TOKENWEIR_WORKER names it."""
    os.nice(5)  # its answers may be a moment late: on a small machine control workers come first
    from agents.quotas import run_quotas

    run_quotas(read_config(os.environ), metrics_port)


@click.command("history")
@METRICS_PORT
def history_command(metrics_port: int | None) -> None:
    """Write usage, decisions and audit from Kafka to ClickHouse."""
    from agents.history import run

    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    sys.exit(asyncio.run(run(read_config(os.environ), metrics_port)))


def main() -> None:
    """Run the command that the arguments name: exit 0 well, 1 an error, 2 wrong usage."""
    try:
        streams.main(prog_name="python -m streams")
    except TokenweirError as error:
        print(error, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
