"""`tokenweir get leases`: what each gateway may spend."""

import asyncio
import time
from collections.abc import Callable

from tokenweir.cli import figures
from tokenweir.cli.log import open_log
from tokenweir.cli.pools import Control, Row, read_control
from tokenweir.cli.settings import Settings
from tokenweir.cli.show import Column, note, show_json, show_table
from tokenweir.records.control import GatewayLeases
from tokenweir.topics import Topics

COLUMNS = (
    Column("POOL", drop=2),
    Column("GATEWAY"),
    Column("TENANT"),
    Column("RATE", right=True),
    Column("BURST", right=True, drop=5),
    Column("FLOOR", right=True, drop=1),
    Column("SEQ", right=True, drop=3),
    Column("KV", right=True, drop=4),
    Column("EXPIRES", right=True),
)
POT = "(starter pot)"


def run(settings: Settings, pool: str | None, output: str) -> None:
    """Print one row a lease, and one for each gateway's starter pot."""
    control, now_ms = asyncio.run(_read(settings, pool)), int(time.time() * 1000)
    rows = [row for part in control.leases for row in rows_of(part, now_ms)]
    if output == "json":
        show_json(rows)
    elif rows:
        show_table(COLUMNS, [_texts(row) for row in rows])
    else:
        note("no gateway holds a lease: gateways get one when they report")


async def _read(settings: Settings, pool: str | None) -> Control:
    async with open_log(settings.need_brokers()) as log:
        return await read_control(log, Topics(settings.topic_prefix), pool)


def rows_of(part: GatewayLeases, now_ms: int) -> list[Row]:
    """The exact leases of one gateway; `tenant` is null for its starter pot."""
    leases = zip(
        part.tenant,
        part.rate,
        part.burst,
        part.floor,
        part.sequences,
        part.kv_bytes,
        strict=True,
    )
    pot = (None, part.pot_rate, part.pot_burst, None, part.pot_sequences, part.pot_kv_bytes)
    return [
        {
            "pool": part.pool,
            "gateway": part.gateway,
            "tenant": tenant,
            "rate_milli_tokens_per_s": rate,
            "burst_milli_tokens": burst,
            "floor_milli_tokens_per_s": floor,
            "sequences": sequences,
            "kv_bytes": kv_bytes,
            "expires_ms": part.expires_ms,
            "expires_in_ms": part.expires_ms - now_ms,
            "floor_expires_ms": part.floor_expires_ms,
        }
        for tenant, rate, burst, floor, sequences, kv_bytes in (*leases, pot)
    ]


def _texts(row: Row) -> list[str]:
    left_ms = row["expires_in_ms"]
    return [
        row["pool"],
        row["gateway"],
        row["tenant"] or POT,
        figures.rate(row["rate_milli_tokens_per_s"]),
        figures.count(row["burst_milli_tokens"] // 1000),
        _limit(row["floor_milli_tokens_per_s"], figures.rate),
        _limit(row["sequences"], str),
        _limit(row["kv_bytes"], figures.size),
        figures.age(left_ms) if left_ms > 0 else "over",
    ]


def _limit(value: int | None, unit: Callable[[int], str]) -> str:
    """A limit of -1 is none, and a starter pot has no floor."""
    if value is None:
        return "-"
    return "any" if value < 0 else unit(value)
