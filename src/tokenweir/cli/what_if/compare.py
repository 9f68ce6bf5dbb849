"""`tokenweir what-if`: what a changed policy would have done to a recorded range."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from tokenweir.cli.progress import progress
from tokenweir.cli.review.log import read_span, review_log
from tokenweir.cli.review.page_file import need_pages
from tokenweir.cli.settings import Settings
from tokenweir.cli.show import Column, note, show_json, show_table
from tokenweir.cli.what_if.words import (
    assumed_words,
    changed_by,
    cost_row,
    lead_words,
    outcome_words,
    pool_rows,
    row_of,
    tenant_row,
)
from tokenweir.errors import BadInput
from tokenweir.history.price_table import read_prices
from tokenweir.history.prices import Price
from tokenweir.review.span import Span
from tokenweir.review.versus import Versus, versus
from tokenweir.review.what_if import Policy, WhatIf, what_if
from tokenweir.spec import compile_spec, read_spec

POOL = (Column(""), Column("RECORDED", right=True), Column("CHANGED", right=True))
TENANTS = (
    Column("TENANT"),
    Column("CLASS", drop=2),
    Column("SPENT", right=True),
    Column("GAIN", right=True),
    Column("GRANTED", right=True, drop=3),
    Column("BORROWED", right=True, drop=1),
    Column("REFUSED", right=True, drop=4),
    Column("REFUSED TOKENS", right=True),
    Column("HIGHEST DEBT", right=True, drop=5),
)
COSTS = (
    Column("TENANT"),
    Column("COST RECORDED", right=True),
    Column("COST CHANGED", right=True),
    Column("DIFFERENCE", right=True),
)


def run(
    settings: Settings,
    policy: Path,
    pool: str | None,
    file: Path | None,
    since: str | None,
    until: str | None,
    from_offset: int | None,
    to_offset: int | None,
    prices: Path | None,
    report: Path | None,
    output: str,
) -> None:
    """Print both sides, and write the page where one is asked for."""
    if report is not None:
        need_pages()
    span = read_span(since, until, from_offset, to_offset)
    table = None if prices is None else read_prices(prices)
    changed = read_policy(policy)
    found = asyncio.run(_what_if(settings, pool, file, span, changed, table))
    sums = versus(found, table)
    if report is not None:
        from tokenweir.cli.what_if.page import write

        write(found, sums, policy.name, report)
    if output == "json":
        show_json(row_of(found, sums, str(policy)))
    else:
        _show(found, sums, policy.name)
    if found.used.unreadable:
        note(f"{found.used.unreadable} reports have requests that cannot be read: not in the cost")
    if report is not None:
        note(f"{report}: open it in a browser")


def read_policy(path: Path) -> Policy:
    """The spec in a file, to be compiled with the version of whatever it replaces."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"--policy {path}: cannot be read: {error}") from error
    pool = read_spec(text, str(path))
    return lambda recorded: compile_spec(pool, recorded.version, recorded.replaces, text)


async def _what_if(
    settings: Settings,
    pool: str | None,
    file: Path | None,
    span: Span,
    policy: Policy,
    prices: Mapping[str, Price] | None,
) -> WhatIf:
    async with review_log(settings, pool, file) as log:
        with progress(f"what-if of {log.pool}") as told:
            return await what_if(log, span, policy, told, models=prices is not None)


def _show(found: WhatIf, sums: Versus, name: str) -> None:
    print(lead_words(found, sums, name))
    for change in changed_by(found):
        print(f"  {change.path}: {change.before or '(none)'} → {change.after or '(none)'}")
    print()
    print("\n".join(outcome_words(found, sums)))
    if not found.is_same:
        print()
        show_table(POOL, [*pool_rows(sums)])
        print()
        show_table(TENANTS, [tenant_row(one) for one in sums.tenants])
        if sums.priced:
            print()
            show_table(COSTS, [cost_row(one, sums.priced) for one in sums.tenants])
    print("\nAssumed:")
    for line in assumed_words(found, sums):
        print(f"- {line}")
