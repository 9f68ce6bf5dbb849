"""The commands, their options and their help; what they do is loaded when they are called."""

from importlib.metadata import version
from typing import Any

import click

from tokenweir.cli.capacity.commands import capacity
from tokenweir.cli.dead_letters.commands import dead_letters
from tokenweir.cli.history.commands import usage
from tokenweir.cli.options import OUTPUT, POOL, connected
from tokenweir.cli.review.commands import REVIEW
from tokenweir.cli.review.judging import JUDGING
from tokenweir.cli.simulate.commands import simulate
from tokenweir.cli.specs.commands import presets

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(context_settings=CONTEXT)
@click.version_option(version("tokenweir"), prog_name="tokenweir")
def tokenweir() -> None:
    """Share the capacity of LLM pools among tenants.

    A pool is one shared inference capacity. Its spec, a YAML file, says what it can do and who is
    entitled to what; the control plane decides every second who may spend how much.

    \b
    Begin:
      tokenweir apply -f pool.yaml    tell the control plane about a pool
      tokenweir get tenants           see who asks for what and who gets it
      tokenweir tail                  watch the decisions
    """


@tokenweir.command()
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    required=True,
    metavar="FILE",
    help="A pool's spec; - is standard input. May be given several times.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Check, show what would change, and stop.")
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0),
    default=15,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the decision that obeys it.",
)
@OUTPUT
@connected("brokers")
def apply(settings: Any, **given: Any) -> int:
    """Create a pool or change it.

    Checks the whole file and tells every problem at once; shows what changes; asks; publishes;
    waits for the first decision that obeys the new spec.

    Exit codes: 0 in force or no change; 1 a problem, or rejected; 3 published, but no decision in
    time.

    \b
    Example:
      tokenweir apply -f chat.yaml --dry-run
    """
    from tokenweir.cli.specs import apply

    return apply.run(settings, **given)


@tokenweir.group()
def get() -> None:
    """Show pools, tenants, quotas or leases as they are now."""


@get.command()
@POOL
@OUTPUT
@connected("brokers")
def pools(settings: Any, **given: Any) -> None:
    """Show each pool's newest decision.

    LEVEL is the smoothed use of what is reserved, as a part of the budget; LENT is what spot and
    preemptible tenants take on top; AGE is how old the decision is.

    \b
    Example:
      tokenweir get pools --output json
    """
    from tokenweir.cli.get import pools

    pools.run(settings, **given)


@get.command()
@POOL
@click.option("--all", "idle", is_flag=True, help="Idle tenants too.")
@OUTPUT
@connected("brokers")
def tenants(settings: Any, **given: Any) -> None:
    """Show what each tenant asked for and got at its pool's newest decision.

    Rates are charged tokens a second. DEMAND is spent, refused and waiting; GRANT is what it may
    spend until the next decision; RATE is its smoothed use. QUEUED and REFUSED count requests.

    \b
    Example:
      tokenweir get tenants --pool chat
    """
    from tokenweir.cli.get import tenants

    tenants.run(settings, **given)


@get.command()
@POOL
@OUTPUT
@connected("brokers")
def quotas(settings: Any, **given: Any) -> None:
    """Show what is spent of the quotas that are in use.

    USER is - for the tenant as a whole, and * for what each user may spend that has not been seen.
    GIVEN is what all gateways together may have spent.

    \b
    Example:
      tokenweir get quotas --pool chat
    """
    from tokenweir.cli.get import quotas

    quotas.run(settings, **given)


@get.command()
@POOL
@OUTPUT
@connected("brokers")
def leases(settings: Any, **given: Any) -> None:
    """Show what each gateway may spend, tenant by tenant.

    A lease is a gateway's share of a grant until it expires; after that its floor remains for a
    while. Tenants without a lease are served from the gateway's starter pot.

    \b
    Example:
      tokenweir get leases --pool chat
    """
    from tokenweir.cli.get import leases

    leases.run(settings, **given)


@tokenweir.command()
@POOL
@click.option("--from-beginning", is_flag=True, help="Begin with the oldest decision kept.")
@click.option(
    "-n", "--count", type=click.IntRange(min=1), metavar="N", help="Stop after N decisions."
)
@OUTPUT
@connected("brokers")
def tail(settings: Any, **given: Any) -> None:
    """Show decisions as they come, a line each, until Ctrl-C.

    A line says the time, the pool, its tier, its level (firm use + what spot and preemptible
    tenants take), what is granted of the capacity, and how many requests were refused or wait.

    \b
    Example:
      tokenweir tail --pool chat --from-beginning --count 20
    """
    from tokenweir.cli.watch import tail

    tail.run(settings, **given)


@tokenweir.command()
@click.argument("decision", metavar="DECISION_ID")
@click.option("--tenant", metavar="NAME", help="The story of one tenant, in words.")
@OUTPUT
@connected("brokers", "clickhouse")
def explain(settings: Any, **given: Any) -> None:
    """Tell the whole story of a decision: why a request was refused, or got less.

    DECISION_ID is what a refusal and its header tokenweir-decision name. Shows level and tier, what
    each tenant asked for and got, weights, debts and leases, and the audit half a minute around it:
    from the history in ClickHouse, or from the journal where that has it not.

    \b
    Example:
      tokenweir explain chat@1767323045000 --tenant acme
    """
    from tokenweir.cli.history import explain

    explain.run(settings, **given)


@tokenweir.command()
@click.argument("query")
@OUTPUT
@connected("clickhouse")
def sql(settings: Any, **given: Any) -> None:
    """Ask the history in ClickHouse; QUERY may only read. - reads it from standard input.

    \b
    Example:
      tokenweir sql "SELECT tenant, count() FROM usage GROUP BY tenant"
    """
    from tokenweir.cli.history import sql

    sql.run(settings, **given)


@tokenweir.command()
@OUTPUT
@connected("brokers", "clickhouse")
def status(settings: Any, **given: Any) -> int:
    """Show what runs, what is behind, and when each pool was last decided on.

    Exit code 1 when a part is down or a process of the stack is not running.

    \b
    Example:
      tokenweir status
    """
    from tokenweir.cli.watch import status

    return status.run(settings, **given)


tokenweir.add_command(capacity)
tokenweir.add_command(dead_letters)
tokenweir.add_command(presets)
tokenweir.add_command(simulate)
tokenweir.add_command(usage)
for command in (*REVIEW, *JUDGING):
    tokenweir.add_command(command)
