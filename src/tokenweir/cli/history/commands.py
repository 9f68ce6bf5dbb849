"""The command on usage: its options and its help."""

from typing import Any

import click

from tokenweir.cli.options import OUTPUT, connected


@click.command()
@click.argument("pool")
@click.option(
    "--by",
    type=click.Choice(["tenant", "hour-of-week"]),
    default="tenant",
    show_default=True,
    help="hour-of-week: Mon 00:00 to Sun 23:00, summed over the weeks.",
)
@click.option(
    "--since",
    default="168h",
    show_default=True,
    metavar="TIME",
    help="Used since: 12h, 672h (four weeks), or 2026-11-29T17:10 (UTC).",
)
@click.option("--zone", default="UTC", show_default=True, help="Whose clock the hours follow.")
@OUTPUT
@connected("clickhouse")
def usage(settings: Any, **given: Any) -> None:
    """Show who used what of a pool, or in which hours of the week it is used.

    REQUESTS count where they end; INPUT and OUTPUT are tokens as they were, REFUSED TOKENS are
    charged tokens that were asked for and refused.

    \b
    Example:
      tokenweir usage chat --by hour-of-week --since 672h --zone Europe/Berlin
    """
    from tokenweir.cli.history import usage

    usage.run(settings, **given)
