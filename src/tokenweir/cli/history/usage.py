"""`tokenweir usage`: who used what, or when in the week a pool is used, from the history."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from tokenweir.cli import figures
from tokenweir.cli.moment import read_since
from tokenweir.cli.settings import Settings
from tokenweir.cli.show import Column, note, show_json, show_table
from tokenweir.errors import BadInput
from tokenweir.history.answers import HourUsage, TenantUsage
from tokenweir.history.client import connect
from tokenweir.history.instants import instant_of
from tokenweir.history.queries import UsageByHourOfWeek, UsageByTenant, read
from tokenweir.spec.words import DAYS
from tokenweir.spec.zones import is_zone

NUMBERS = ("REQUESTS", "REFUSED", "INPUT", "OUTPUT", "REFUSED TOKENS")


def run(settings: Settings, pool: str, by: str, since: str, zone: str, output: str) -> None:
    """Print the usage of a pool since then, by tenant or by hour of the week in `zone`."""
    if not is_zone(zone):
        raise BadInput(f"--zone: value {zone!r}: a time zone of the IANA database: Europe/Berlin")
    now_ms = int(time.time() * 1000)
    began = instant_of(read_since(since, now_ms))
    _BY[by](settings, pool, began, instant_of(now_ms), zone, output)


def _by_hour(
    settings: Settings, pool: str, since: datetime, until: datetime, zone: str, output: str
) -> None:
    with connect(settings.need_clickhouse()) as client:
        rows = read(client, UsageByHourOfWeek(pool, since, until, zone))
    head = [Column("HOUR"), Column("TENANTS", right=True, drop=1)]
    _show(pool, head, [_hour(row) for row in rows], rows, output)


def _by_tenant(
    settings: Settings, pool: str, since: datetime, until: datetime, zone: str, output: str
) -> None:
    with connect(settings.need_clickhouse()) as client:
        rows = read(client, UsageByTenant(pool, since, until))
    _show(pool, [Column("TENANT")], [[row.tenant, *_numbers(row)] for row in rows], rows, output)


def _show(
    pool: str,
    head: Sequence[Column],
    lines: Sequence[Sequence[str]],
    rows: Sequence[HourUsage] | Sequence[TenantUsage],
    output: str,
) -> None:
    if output == "json":
        show_json([asdict(row) for row in rows])
    elif not rows:
        note(f"pool {pool} was not used in that time; --since looks further back")
    else:
        show_table([*head, *(Column(name, right=True) for name in NUMBERS)], lines)


def _hour(row: HourUsage) -> list[str]:
    return [f"{DAYS[row.day - 1]} {row.hour:02}:00", str(row.tenants), *_numbers(row)]


def _numbers(row: HourUsage | TenantUsage) -> list[str]:
    tokens = (row.input_tokens, row.output_tokens, row.refused_tokens)
    return [str(row.requests), str(row.refused), *map(figures.count, tokens)]


_BY: Mapping[str, Callable[..., Any]] = {"tenant": _by_tenant, "hour-of-week": _by_hour}
