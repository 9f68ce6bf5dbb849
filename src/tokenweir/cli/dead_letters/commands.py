"""The commands on dead letters: their options and their help."""

from collections.abc import Callable
from typing import Any

import click

from tokenweir.cli.options import OUTPUT, POOL, connected

SINCE = click.option(
    "--since", metavar="TIME", help="Found since: 30min, 12h, or 2026-11-29T17:10 (UTC)."
)
REASON = click.option("--reason", metavar="TEXT", help="Only those whose reason has this text.")


def chosen(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that choose letters."""
    return POOL(REASON(SINCE(command)))


@click.group("dead-letters")
def dead_letters() -> None:
    """Look at records that could not be used, and send them again.

    What a reader cannot use it puts into the dead-letter topic with the reason, and goes on.
    """


@dead_letters.command("list")
@chosen
@OUTPUT
@connected("brokers")
def list_(settings: Any, **given: Any) -> None:
    """Show the letters, the newest last. PLACE is the name of a letter.

    BY is the reader that could not use the record: control, history, events, or a gateway's id.

    \b
    Example:
      tokenweir dead-letters list --pool chat --since 2h
    """
    from tokenweir.cli.dead_letters import letters

    letters.run(settings, **given)


@dead_letters.command()
@click.argument("place", metavar="TOPIC/PARTITION/OFFSET")
@OUTPUT
@connected("brokers")
def explain(settings: Any, **given: Any) -> None:
    """Tell all about a letter: why, what its bytes are, and what to do now.

    \b
    Example:
      tokenweir dead-letters explain tokenweir.usage.v1/3/1234
    """
    from tokenweir.cli.dead_letters import explain

    explain.run(settings, **given)


@dead_letters.command()
@click.argument("places", metavar="[TOPIC/PARTITION/OFFSET]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All that the other options leave.")
@chosen
@click.option("--include-settings", is_flag=True, help="Specs and capacities too, as they are.")
@click.option("--dry-run", is_flag=True, help="Show what would be sent, and stop.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@OUTPUT
@connected("brokers")
def resend(settings: Any, **given: Any) -> int:
    """Send letters again through the ordinary path, each at most once.

    A usage report goes under a gateway id of its own, with its age grown by the time that has
    passed, and into the partition of its pool; an event as it was. What can still not be used, or
    was counted, is refused with the reason. What was sent again is marked, and not sent twice.

    Exit code 1 when one of the chosen letters was refused.

    \b
    Example:
      tokenweir dead-letters resend --reason "applied is" --since 2h
    """
    from tokenweir.cli.dead_letters import resend

    return resend.run(settings, **given)
