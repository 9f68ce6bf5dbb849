"""The commands that judge a recorded range: their options and their help."""

from typing import Any

import click

from tokenweir.cli.options import OUTPUT, connected
from tokenweir.cli.review.commands import FILE, TIME, from_log, ranged


@click.command("what-if")
@click.option(
    "--policy",
    required=True,
    type=FILE,
    metavar="FILE",
    help="The pool's whole spec, changed; YAML as for apply.",
)
@from_log
@ranged
@click.option(
    "--prices",
    type=FILE,
    metavar="FILE",
    help="Prices by model, JSON as LiteLLM's table. Without it charged tokens stand for cost.",
)
@click.option("--report", type=FILE, metavar="FILE", help="Write a page with plots there, HTML.")
@OUTPUT
@connected("brokers")
def what_if(settings: Any, **given: Any) -> None:
    """Show what a changed policy would have done to a recorded range.

    Folds the same log twice, under the recorded policy and under the changed one, and shows both
    side by side: tiers, level, grants, refusals, debt and cost by tenant, who would have gained and
    who would have lost. Demand that was refused is offered again; what else is assumed is said with
    the figures. It reads beside everybody else and writes to no topic.

    \b
    Example:
      tokenweir what-if --policy changed.yaml --pool chat --from 2026-11-29T17:00 --report if.html
    """
    from tokenweir.cli.what_if import compare

    compare.run(settings, **given)


@click.command()
@from_log
@click.option("--from", "since", metavar="TIME", help=f"First decision: {TIME}.")
@click.option("--to", "until", metavar="TIME", help="Last decision, as --from.")
@click.option("--html", "path", required=True, type=FILE, metavar="FILE", help="The page to write.")
@click.option(
    "--at",
    metavar="TIME",
    help="The decision whose numbers stand open. Else the one with most refusals.",
)
@OUTPUT
@connected("brokers")
def report(settings: Any, **given: Any) -> None:
    """Write an incident report: one HTML file that needs nothing else.

    It has the timeline with tiers and audit entries, what happened minute by minute and why, plots
    of level, demand, grants, refusals and debt, requests and their attempts, and the numbers of
    each decision. Everything is as it was recorded; nothing is computed again.

    \b
    Example:
      tokenweir report --pool chat --from 2026-11-29T17:00 --html incident.html
    """
    from tokenweir.cli.review.page_file import need_pages

    need_pages()
    from tokenweir.cli.report import incident

    incident.run(settings, **given)


JUDGING = (what_if, report)
