"""The commands on capacities: their options and their help."""

from typing import Any

import click

from tokenweir.cli.options import OUTPUT, connected

WAIT = click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0),
    default=15,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the decision that obeys it.",
)


@click.group()
def capacity() -> None:
    """Say what a pool can do, see who said so, or measure it."""


@capacity.command("set")
@click.argument("pool")
@click.option("--tokens-per-s", metavar="RATE", help="Charged tokens: 20k/s, 1.2M/min.")
@click.option("--kv-bytes", metavar="BYTES", help="KV cache: 40 GiB.")
@click.option("--sequences", metavar="N", help="Concurrent sequences.")
@WAIT
@OUTPUT
@connected("brokers")
def set_(settings: Any, **given: Any) -> int:
    """Tell a pool what it can do from now on, without a new spec.

    At least one of the three; the others stay as they are. It holds until somebody says otherwise:
    a reporter, or a spec whose capacity differs from the one before it.

    Exit codes: 0 in force; 1 a problem; 3 published, but no decision in time.

    \b
    Example:
      tokenweir capacity set chat --tokens-per-s 12k/s --sequences 256
    """
    from tokenweir.cli.capacity.set import run

    return run(settings, **given)


@capacity.command()
@click.argument("pool")
@OUTPUT
@connected("brokers")
def show(settings: Any, **given: Any) -> None:
    """Show a pool's capacity in force, and what each source said last.

    \b
    Example:
      tokenweir capacity show chat
    """
    from tokenweir.cli.capacity import show

    show.run(settings, **given)


@capacity.command()
@click.option("--pool", metavar="NAME", required=True, help="Whose engines these are.")
@click.option(
    "--url",
    "urls",
    metavar="URL",
    multiple=True,
    required=True,
    help="The metrics page of a vLLM server; several of them add up.",
)
@click.option("--every", default="5s", show_default=True, metavar="TIME", help="Between scrapes.")
@click.option("--tokens-per-s", metavar="RATE", help="What one engine can do until it is measured.")
@click.option(
    "--kv-bytes-per-token", metavar="BYTES", help="Of the model; without it KV is not said."
)
@click.option("--sequences", metavar="N", help="What one engine runs at once: its --max-num-seqs.")
@click.option(
    "-n", "--count", type=click.IntRange(min=1), metavar="N", help="Stop after N reports."
)
@OUTPUT
@connected("brokers")
def report(settings: Any, **given: Any) -> None:
    """Measure what vLLM servers can do, and report it until Ctrl-C.

    The rate of an engine is the highest of the last ten minutes in which requests waited there for
    30 s; engines that answer add up, and one that has missed three scrapes counts 0. A report is
    sent when something has changed by more than 5 %, and once a minute.

    \b
    Example:
      tokenweir capacity report --pool chat --url http://gpu-1:8000/metrics --tokens-per-s 10k/s
    """
    from tokenweir.cli.capacity import report

    report.run(settings, **given)
