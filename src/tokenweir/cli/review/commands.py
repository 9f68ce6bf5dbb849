"""The commands of review: their options and their help."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from tokenweir.cli.options import OUTPUT, connected

TIME = "30min, 12h, 2026-11-29T17:10 (UTC), or a decision's id"
FILE = click.Path(dir_okay=False, path_type=Path)
RANGE = (
    click.option("--from", "since", metavar="TIME", help=f"First decision: {TIME}."),
    click.option("--to", "until", metavar="TIME", help="Last decision, as --from."),
    click.option(
        "--from-offset",
        type=click.IntRange(min=0),
        metavar="N",
        help="First message of the usage topic, in place of --from.",
    ),
    click.option(
        "--to-offset",
        type=click.IntRange(min=0),
        metavar="N",
        help="Last message, as --from-offset.",
    ),
)


def ranged(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that choose a part of a log."""
    for option in reversed(RANGE):
        command = option(command)
    return command


def from_log(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say whose log, and where it is."""
    pool = click.option("--pool", metavar="NAME", help="The pool; a file has only one.")
    file = click.option(
        "--file", type=FILE, metavar="FILE", help="An exported incident, in place of Kafka."
    )
    return pool(file(command))


@click.command()
@from_log
@ranged
@OUTPUT
@connected("brokers")
def replay(settings: Any, **given: Any) -> int:
    """Compute past decisions again, and compare each with what was recorded, field by field.

    Begins at the nearest snapshot in the journal before the range; without a range, at the first
    record that is kept. Times are pool time. It reads beside everybody else and writes nothing.

    Exit codes: 0 all as recorded, also when there is nothing to compare; 1 the first difference,
    or a decision that was recorded twice with different contents; 3 all as recorded, but a part of
    the range could not be compared, and why.

    \b
    Example:
      tokenweir replay --pool chat --from 2026-11-29T17:00 --to 2026-11-29T17:30
    """
    from tokenweir.cli.review import replay

    return replay.run(settings, **given)


@click.command()
@click.argument("path", metavar="FILE", type=FILE)
@click.option("--pool", required=True, metavar="NAME", help="The pool.")
@ranged
@click.option(
    "--keep-users", is_flag=True, help="Leave users' names and requests' ids as they are."
)
@click.option("--force", is_flag=True, help="Write over FILE if there is one.")
@OUTPUT
@connected("brokers")
def export(settings: Any, **given: Any) -> None:
    """Write a part of a pool's log into a file that can be replayed without Kafka.

    The file is an Avro container with the snapshot before the range, the messages, the journal and
    the schemas. Users become numbers and requests' ids digests; tenants keep their names.

    \b
    Example:
      tokenweir export incident.avro --pool chat --from 2026-11-29T17:00 --to 2026-11-29T17:30
      tokenweir replay --file incident.avro
    """
    from tokenweir.cli.review import export

    export.run(settings, **given)


@click.command("import")
@click.argument("path", metavar="FILE", type=FILE)
@click.option(
    "--prefix",
    required=True,
    metavar="TEXT",
    help="Goes before the names of the new topics; no topic may have it yet.",
)
@OUTPUT
@connected("brokers")
def import_(settings: Any, **given: Any) -> None:
    """Put an exported incident into topics of its own, with the append times that it had.

    \b
    Example:
      tokenweir import incident.avro --prefix review-
      TOKENWEIR_TOPIC_PREFIX=review- tokenweir replay --pool chat
    """
    from tokenweir.cli.review import import_incident

    import_incident.run(settings, **given)


REVIEW = (replay, export, import_)
