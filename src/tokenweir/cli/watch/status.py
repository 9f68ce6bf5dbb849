"""`tokenweir status`: what runs, what is behind, and when each pool was last decided on."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from tokenweir.cli import figures
from tokenweir.cli.get import pools as get_pools
from tokenweir.cli.history import sql
from tokenweir.cli.log import open_log
from tokenweir.cli.pools import Row, read_control
from tokenweir.cli.settings import Settings, read_stack
from tokenweir.cli.show import Column, show_json, show_table
from tokenweir.cli.watch import lag, processes
from tokenweir.errors import TokenweirError
from tokenweir.topics import Topics

PROCESSES = (Column("PROCESS"), Column("PID", right=True), Column("STATE"), Column("LOG", drop=1))
GROUPS = (
    Column("GROUP"),
    Column("TOPIC"),
    Column("PARTITIONS", right=True, drop=1),
    Column("LAG", right=True),
)
POOLS = (
    Column("POOL"),
    Column("TIER"),
    Column("LEVEL", right=True),
    Column("SPEC", right=True),
    Column("LAST DECISION", right=True),
)


def run(settings: Settings, output: str) -> int:
    """Print the state of every part; 0 when all that is known of runs, else 1."""
    found = asyncio.run(_look(settings))
    if output == "json":
        show_json(found)
    else:
        _show(found)
    parts = [found["kafka"], found["clickhouse"], *found["processes"]]
    well = (part["state"] in ("up", "running") and not part.get("why") for part in parts)
    return 0 if all(well) else 1


async def _look(settings: Settings) -> dict[str, Any]:
    kafka, groups, pools = await _kafka(settings)
    return {
        "kafka": kafka,
        "clickhouse": await asyncio.to_thread(_clickhouse, settings),
        "stack": None if settings.stack is None else str(settings.stack),
        "processes": []
        if settings.stack is None
        else processes.rows_of(read_stack(settings.stack)),
        "groups": groups,
        "pools": pools,
    }


async def _kafka(settings: Settings) -> tuple[Row, list[Row], list[Row]]:
    """How Kafka is, how far each group is behind, and each pool's last decision."""
    state: Row = {"address": settings.brokers, "state": "down", "why": None}
    groups: list[Row] = []
    pools: list[Row] = []
    try:
        brokers, topics = settings.need_brokers(), Topics(settings.topic_prefix)
        async with open_log(brokers) as log:
            groups = await lag.rows_of(log, topics)
            state["state"] = "up"
            pools = get_pools.rows_of(await read_control(log, topics), int(time.time() * 1000))
    except TokenweirError as error:
        state["why"] = str(error)
    return state, groups, pools


def _clickhouse(settings: Settings) -> Row:
    """Whether it answers a first query."""
    state: Row = {"address": None, "state": "up", "why": None}
    try:
        url = settings.need_clickhouse()
        state["address"] = sql.without_password(url)
        sql.connect(url).close()
    except TokenweirError as error:
        return state | {"state": "down", "why": str(error)}
    return state


def _show(found: dict[str, Any]) -> None:
    print(_part("Kafka", found["kafka"]))
    print(_part("ClickHouse", found["clickhouse"]))
    _section(PROCESSES, [_process(row) for row in found["processes"]])
    _section(GROUPS, [_group(row) for row in found["groups"]])
    _section(POOLS, [_pool(row) for row in found["pools"]])


def _part(name: str, part: Row) -> str:
    if part["state"] == "down":
        return f"{name}: down: {part['why']}"
    return f"{name}: up at {part['address']}" + (f", but {part['why']}" if part["why"] else "")


def _section(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    if rows:
        print(flush=True)
        show_table(columns, rows)


def _process(row: Row) -> list[str]:
    return [row["name"], str(row["pid"] or "-"), row["state"], row["log"] or ""]


def _group(row: Row) -> list[str]:
    return [row["group"], row["topic"], str(row["partitions"]), figures.count(row["lag_records"])]


def _pool(row: Row) -> list[str]:
    return [
        row["pool"],
        row["tier"],
        figures.percent(row["level_millionths"]),
        str(row["spec_version"]),
        f"{figures.age(row['age_ms'])} ago",
    ]
