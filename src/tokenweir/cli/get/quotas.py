"""`tokenweir get quotas`: what is spent of the quotas in use, as the newest decisions have it."""

import asyncio

from tokenweir.cli import figures
from tokenweir.cli.log import open_log
from tokenweir.cli.pools import Row, read_control, read_figures
from tokenweir.cli.settings import Settings
from tokenweir.cli.show import Column, note, show_json, show_table
from tokenweir.records.journal import DecisionEntry
from tokenweir.topics import Topics

COLUMNS = (
    Column("POOL", drop=1),
    Column("TENANT"),
    Column("USER"),
    Column("WINDOW"),
    Column("QUOTA", right=True),
    Column("SPENT", right=True),
    Column("LEFT", right=True),
    Column("GIVEN", right=True, drop=2),
)


def run(settings: Settings, pool: str | None, output: str) -> None:
    """Print one row a window of a quota that gateways have ceilings of."""
    rows = [row for entry in asyncio.run(_read(settings, pool)) for row in rows_of(entry)]
    if output == "json":
        show_json(rows)
    elif rows:
        show_table(COLUMNS, [_texts(row) for row in rows])
    else:
        note("no quota is in use: a tenant's quota is shown once it asks for something")


async def _read(settings: Settings, pool: str | None) -> list[DecisionEntry]:
    topics = Topics(settings.topic_prefix)
    async with open_log(settings.need_brokers()) as log:
        return await read_figures(log, topics, await read_control(log, topics, pool))


def rows_of(entry: DecisionEntry) -> list[Row]:
    """The exact figures of each window in use at one decision."""
    of = entry.quotas
    columns = (of.tenant, of.user, of.window_id, of.tokens, of.spent, of.given)
    return [
        {
            "pool": entry.decision.pool,
            "tenant": tenant,
            "user": user,
            "window_id": window_id,
            "quota_tokens": tokens,
            "spent_tokens": spent,
            "left_tokens": max(tokens - spent, 0),
            "given_tokens": given,
        }
        for tenant, user, window_id, tokens, spent, given in zip(*columns, strict=True)
    ]


def _texts(row: Row) -> list[str]:
    amounts = ("quota_tokens", "spent_tokens", "left_tokens", "given_tokens")
    texts = (figures.count(row[name]) for name in amounts)
    return [row["pool"], row["tenant"], row["user"] or "-", row["window_id"], *texts]
