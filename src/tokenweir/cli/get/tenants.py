"""`tokenweir get tenants`: what each tenant asked for and got at its pool's newest decision."""

import asyncio

from tokenweir.cli import figures
from tokenweir.cli.log import open_log
from tokenweir.cli.pools import Control, Row, read_control, read_figures
from tokenweir.cli.settings import Settings
from tokenweir.cli.show import Column, note, show_json, show_table
from tokenweir.records.journal import DecisionEntry
from tokenweir.topics import Topics

COLUMNS = (
    Column("POOL", drop=4),
    Column("TENANT"),
    Column("CLASS", drop=1),
    Column("BASELINE", right=True, drop=3),
    Column("DEMAND", right=True),
    Column("GRANT", right=True),
    Column("RATE", right=True, drop=2),
    Column("DEBT", right=True, drop=6),
    Column("QUEUED", right=True, drop=5),
    Column("REFUSED", right=True),
)
UNITS = {
    "baseline_milli_tokens_per_s": figures.rate,
    "demand_milli_tokens_per_s": figures.rate,
    "grant_milli_tokens_per_s": figures.rate,
    "rate_milli_tokens_per_s": figures.rate,
    "debt_millionths": figures.ratio,
    "queued_requests": figures.count,
    "refused_requests": figures.count,
}
# What the journal's columns are called in JSON, where each key says its unit.
KEYS = {
    "baseline": "baseline_milli_tokens_per_s",
    "demand": "demand_milli_tokens_per_s",
    "grant": "grant_milli_tokens_per_s",
    "rate": "rate_milli_tokens_per_s",
    "floor": "floor_milli_tokens_per_s",
    "leased": "leased_milli_tokens_per_s",
    "used": "window_tokens",
    "spent": "interval_tokens",
    "weight": "weight_millionths",
    "debt": "debt_millionths",
    "queued": "queued_requests",
    "refused": "refused_requests",
    "refused_tokens": "refused_tokens",
}


def run(settings: Settings, pool: str | None, output: str, idle: bool) -> None:
    """Print one row a tenant that was not idle, or with `idle` every one that is entitled."""
    control, entries = asyncio.run(_read(settings, pool))
    rows = [row for entry in entries for row in rows_of(entry)]
    resting = _idle(control, rows)
    if idle:
        rows = sorted([*rows, *resting], key=_name)
    if output == "json":
        show_json(rows)
    elif rows:
        show_table(COLUMNS, [_texts(row) for row in rows])
    if output == "table" and resting and not idle:
        note(f"idle tenants left out: {len(resting)} (--all shows them)")


async def _read(settings: Settings, pool: str | None) -> tuple[Control, list[DecisionEntry]]:
    topics = Topics(settings.topic_prefix)
    async with open_log(settings.need_brokers()) as log:
        control = await read_control(log, topics, pool)
        return control, await read_figures(log, topics, control)


def rows_of(entry: DecisionEntry) -> list[Row]:
    """The exact figures of each tenant of one decision."""
    of = entry.tenants
    return [
        {"pool": entry.decision.pool, "tenant": tenant, "class": of.service_class[at]}
        | {key: getattr(of, column)[at] for column, key in KEYS.items()}
        for at, tenant in enumerate(of.tenant)
    ]


def _idle(control: Control, rows: list[Row]) -> list[Row]:
    """Entitled tenants without figures: they neither asked for anything nor hold anything."""
    shown = {_name(row) for row in rows}
    return [
        {"pool": pool, "tenant": tenant, "class": service_class}
        | dict.fromkeys(KEYS.values(), None)
        for pool, roster in control.rosters.items()
        for tenant, service_class in zip(roster.tenant, roster.service_class, strict=True)
        if (pool, tenant) not in shown
    ]


def _name(row: Row) -> tuple[str, str]:
    return row["pool"], row["tenant"]


def _texts(row: Row) -> list[str]:
    values = ("-" if row[key] is None else unit(row[key]) for key, unit in UNITS.items())
    return [row["pool"], row["tenant"], row["class"], *values]
