"""`tokenweir get pools`: each pool's newest decision."""

import asyncio
import time

from tokenweir.cli import figures
from tokenweir.cli.log import open_log
from tokenweir.cli.pools import Control, Row, read_control
from tokenweir.cli.settings import Settings
from tokenweir.cli.show import Column, note, show_json, show_table
from tokenweir.topics import Topics

COLUMNS = (
    Column("POOL"),
    Column("TIER"),
    Column("LEVEL", right=True),
    Column("LENT", right=True, drop=2),
    Column("ALPHA", right=True, drop=4),
    Column("GRANTED", right=True),
    Column("CAPACITY", right=True, drop=1),
    Column("TENANTS", right=True, drop=3),
    Column("GATEWAYS", right=True, drop=5),
    Column("SPEC", right=True, drop=6),
    Column("AGE", right=True),
)


def run(settings: Settings, pool: str | None, output: str) -> None:
    """Print one row a pool."""
    rows = rows_of(asyncio.run(_read(settings, pool)), int(time.time() * 1000))
    if output == "json":
        show_json(rows)
    elif rows:
        show_table(COLUMNS, [_texts(row) for row in rows])
    else:
        note("no pool has a decision yet: apply a spec, and let a gateway report")


async def _read(settings: Settings, pool: str | None) -> Control:
    async with open_log(settings.need_brokers()) as log:
        return await read_control(log, Topics(settings.topic_prefix), pool)


def rows_of(control: Control, now_ms: int) -> list[Row]:
    """The exact figures of each pool's decision."""
    return [
        {
            "pool": now.pool,
            "mode": now.mode,
            "tier": now.tier,
            "breaker": now.breaker,
            "level_millionths": now.level,
            "level_now_millionths": now.level_now,
            "lent_millionths": now.lent,
            "alpha_millionths": now.alpha,
            "granted_milli_tokens_per_s": now.granted,
            "capacity_milli_tokens_per_s": now.capacity,
            "priority_threshold": now.priority_threshold,
            "tenants": _tenants(control, now.pool),
            "gateways": len({part.gateway for part in control.leases if part.pool == now.pool}),
            "spec_version": now.spec_version,
            "decision": now.id,
            "at_ms": now.at_ms,
            "age_ms": now_ms - now.at_ms,
        }
        for now in control.decisions
    ]


def _tenants(control: Control, pool: str) -> int | None:
    roster = control.rosters.get(pool)
    return None if roster is None else len(roster.tenant)


def _texts(row: Row) -> list[str]:
    return [
        row["pool"],
        row["tier"] + (", shadow" if row["mode"] == "shadow" else ""),
        figures.percent(row["level_millionths"]),
        figures.percent(row["lent_millionths"]),
        figures.ratio(row["alpha_millionths"]),
        figures.rate(row["granted_milli_tokens_per_s"]),
        figures.rate(row["capacity_milli_tokens_per_s"]),
        "?" if row["tenants"] is None else str(row["tenants"]),
        str(row["gateways"]),
        str(row["spec_version"]),
        figures.age(row["age_ms"]),
    ]
