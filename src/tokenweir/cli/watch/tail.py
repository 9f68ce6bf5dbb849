"""`tokenweir tail`: decisions as they come, a line each."""

import asyncio
from contextlib import aclosing
from datetime import datetime

from tokenweir.cli import figures
from tokenweir.cli.log import open_log
from tokenweir.cli.pools import Row, decision_entries
from tokenweir.cli.settings import Settings
from tokenweir.cli.show import show_line, width
from tokenweir.records.journal import DecisionEntry
from tokenweir.topics import Topics


def run(
    settings: Settings, pool: str | None, from_beginning: bool, count: int | None, output: str
) -> None:
    """Print each decision of the journal once, until `count` are shown or for ever."""
    asyncio.run(_follow(settings, pool, from_beginning, count, output))


async def _follow(
    settings: Settings, pool: str | None, from_beginning: bool, count: int | None, output: str
) -> None:
    topic = Topics(settings.topic_prefix).journal
    shown: dict[str, int] = {}  # the newest decision of each pool: repeats are left out (S6)
    left = count
    async with open_log(settings.need_brokers()) as log:
        partitions = await log.partitions(topic)
        starts = await (log.starts if from_beginning else log.ends)(partitions)
        async with aclosing(log.follow(starts)) as records:
            async for record in records:
                for entry in decision_entries([record]):
                    now = entry.decision
                    if pool not in (None, now.pool) or now.at_ms <= shown.get(now.pool, -1):
                        continue
                    shown[now.pool] = now.at_ms
                    _show(entry, output)
                    left = None if left is None else left - 1
                if left == 0:
                    return


def _show(entry: DecisionEntry, output: str) -> None:
    if output == "json":
        show_line(row_of(entry))
    else:
        print(line_of(entry, width()), flush=True)


def row_of(entry: DecisionEntry) -> Row:
    """The exact figures of one decision."""
    now, tenants = entry.decision, entry.tenants
    return {
        "pool": now.pool,
        "decision": now.id,
        "at_ms": now.at_ms,
        "spec_version": now.spec_version,
        "mode": now.mode,
        "tier": now.tier,
        "breaker": now.breaker,
        "level_millionths": now.level,
        "level_now_millionths": now.level_now,
        "lent_millionths": now.lent,
        "alpha_millionths": now.alpha,
        "granted_milli_tokens_per_s": now.granted,
        "capacity_milli_tokens_per_s": now.capacity,
        "used_tokens": entry.used,
        "budget_tokens": entry.budget,
        "active_tenants": len(tenants.tenant),
        "gateways": len(entry.gateways.gateway),
        "refused_requests": sum(tenants.refused),
        "queued_requests": sum(tenants.queued),
    }


def line_of(entry: DecisionEntry, width: int) -> str:
    """One decision as people read it; what does not fit into `width` is left out at the end."""
    now, tenants = entry.decision, entry.tenants
    time = datetime.fromtimestamp(now.at_ms / 1000).strftime("%H:%M:%S")
    refused, queued = sum(tenants.refused), sum(tenants.queued)
    line = f"{time}  {now.pool}  {now.tier}"
    for part in (
        "shadow" if now.mode == "shadow" else "",
        f"level {figures.percent(now.level)} + {figures.percent(now.lent)}",
        f"{figures.rate(now.granted)} of {figures.rate(now.capacity)}",
        f"refused {figures.count(refused)}" if refused else "",
        f"queued {figures.count(queued)}" if queued else "",
    ):
        if part and len(line) + len(part) + 2 <= width:
            line = f"{line}  {part}"
    return line
