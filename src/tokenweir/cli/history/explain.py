"""`tokenweir explain`: the whole story of one decision, from the history or the journal."""

import asyncio
import re
from collections.abc import Sequence
from datetime import timedelta

from tokenweir.cli import figures
from tokenweir.cli.history.journal_story import read_journal
from tokenweir.cli.history.story import (
    Story,
    change_words,
    decision_words,
    instant,
    story_row,
    tenant_cells,
    tenant_words,
)
from tokenweir.cli.settings import Settings
from tokenweir.cli.show import Column, note, show_json, show_table
from tokenweir.errors import BadInput, Unavailable
from tokenweir.history.answers import Change
from tokenweir.history.client import connect
from tokenweir.history.explain import EndsUnder, GatewaysAt, NewestDecisions
from tokenweir.history.instants import instant_of
from tokenweir.history.queries import AuditOf, FiguresAt, read

AROUND = timedelta(seconds=30)  # audits before and after the decision that belong to its story
_ID = re.compile(r"(?P<pool>.+)@(?P<ms>\d{1,15})(?:/.*)?")
TENANTS = (
    Column("TENANT"),
    Column("CLASS", drop=1),
    Column("BASELINE", right=True, drop=4),
    Column("DEMAND", right=True),
    Column("FLOOR", right=True, drop=5),
    Column("WEIGHT", right=True, drop=2),
    Column("DEBT", right=True, drop=3),
    Column("GRANT", right=True),
    Column("BEFORE", right=True, drop=6),
    Column("LEASED", right=True, drop=7),
    Column("QUEUED", right=True, drop=8),
    Column("REFUSED", right=True),
)
GATEWAYS = (
    Column("GATEWAY"),
    Column("LEASED", right=True),
    Column("SEEN", right=True),
    Column("OBEYED", right=True),
    Column("MISSING", right=True),
)


def run(settings: Settings, decision: str, tenant: str | None, output: str) -> None:
    """Print the story of a decision, or of one tenant in it."""
    pool, at_ms = parsed(decision)
    story = _read(settings, pool, at_ms)
    if output == "json":
        show_json(story_row(story, tenant))
    elif tenant is not None:
        _say(next(iter(decision_words(story))), *tenant_words(story, tenant))
    else:
        _show(story)


def parsed(decision: str) -> tuple[str, int]:
    """Pool and boundary of an id, of a decision or of an entry of its audit."""
    found = _ID.fullmatch(decision)
    if found is None:
        raise BadInput(f"decision is {decision!r}; allowed is an id such as chat@1767323045000")
    return found["pool"], int(found["ms"])


def _read(settings: Settings, pool: str, at_ms: int) -> Story:
    """From the history if there is one and it has the decision, else from the journal."""
    if settings.clickhouse is None:
        return asyncio.run(read_journal(settings, pool, at_ms, AROUND))
    try:
        return read_history(settings.clickhouse, pool, at_ms)
    except (BadInput, Unavailable) as error:
        if settings.brokers is None:
            raise
        note(f"{error}; looking into the journal")
        return asyncio.run(read_journal(settings, pool, at_ms, AROUND))


def read_history(url: str, pool: str, at_ms: int) -> Story:
    """The story as ClickHouse has it; raises `BadInput` when it has no such decision."""
    at = instant_of(at_ms)
    client = connect(url)
    try:
        found = read(client, NewestDecisions(pool, at))
        if not found or found[0].at != at:
            raise BadInput(_missing(pool, at_ms, [told.id for told in found]))
        before = found[1] if len(found) > 1 else None
        return Story(
            pool=pool,
            decision=found[0],
            before=before,
            tenants=read(client, FiguresAt(pool, at)),
            tenants_before=read(client, FiguresAt(pool, before.at)) if before else (),
            gateways=read(client, GatewaysAt(pool, at)),
            changes=read(client, AuditOf(pool, at - AROUND, at + AROUND)),
            ends=read(client, EndsUnder(pool, at)),
        )
    finally:
        client.close()


def _missing(pool: str, at_ms: int, nearest: Sequence[str]) -> str:
    nearby = f"the one before it is {nearest[0]}" if nearest else "it has none up to then"
    return f"the history has no decision {pool}@{at_ms}; {nearby}"


def _show(story: Story) -> None:
    _say(*decision_words(story))
    print()
    before = {row.tenant: row.grant for row in story.tenants_before}
    show_table(TENANTS, [tenant_cells(row, before, "-") for row in story.tenants])
    if story.gateways:
        print()
        show_table(GATEWAYS, list(_gateways(story)))
    if story.changes:
        print()
        _say(*(_change(story, change) for change in story.changes))
    refused = [row for row in story.ends or () if row.status == "refused"]
    if refused:
        print()
        _say(
            *(
                f"refused under it: {row.tenant} {row.reason} {figures.count(row.requests)}"
                for row in refused
            )
        )


def _gateways(story: Story) -> list[list[str]]:
    at = story.decision.at
    return [
        [
            row.gateway,
            figures.rate(row.leased),
            f"{_ago(at, row.seen)} ago",
            "nothing yet" if row.applied.year == 1970 else f"{_ago(at, row.applied)} old",
            figures.count(row.missing),
        ]
        for row in story.gateways
    ]


def _ago(at: object, then: object) -> str:
    return figures.age(int((at - then) / timedelta(milliseconds=1)))  # type: ignore[operator]


def _change(story: Story, change: Change) -> str:
    mark = "*" if change.at == story.decision.at else " "
    return f"{mark} {instant(change.at)}  {change_words(change)}"


def _say(*lines: str) -> None:
    print("\n".join(lines))
