"""What the history says of a run, beside what the load itself counted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from streams.demo.tally import Tallies, Tally
from tokenweir.history.queries import Sql

COLUMNS = ("admitted", "refused", "input", "cached", "output")


@dataclass(frozen=True, slots=True)
class TenantTotals:
    """One tenant's requests and tokens in the history. Input tokens include the cached ones."""

    tenant: str
    admitted: int
    refused: int
    input: int
    cached: int
    output: int


@dataclass(frozen=True, slots=True)
class TotalsOfPool:
    """The totals of every tenant of one pool, over all times."""

    pool: str
    row = TenantTotals

    def sql(self) -> Sql:
        """The text and its parameters."""
        text = """
            SELECT tenant,
                countIf(status IN ('done', 'cancelled', 'expired')) AS admitted,
                countIf(status = 'refused') AS refused,
                sum(tokens_uncached + tokens_cached) AS input,
                sum(tokens_cached) AS cached,
                sum(tokens_out) AS output
            FROM usage WHERE pool = {pool:String} GROUP BY tenant ORDER BY tenant"""
        return text, {"pool": self.pool}


def as_tallies(rows: list[TenantTotals]) -> Tallies:
    """The history's totals as the load counts them."""
    return {
        row.tenant: Tally(row.admitted, row.refused, row.input, row.cached, row.output)
        for row in rows
    }


def agree(history: Mapping[str, Tally], load: Mapping[str, Tally]) -> bool:
    """Whether the history has all that the load counted, and nothing else."""
    return {name: tally.counts() for name, tally in history.items()} == {
        name: tally.counts() for name, tally in load.items()
    }


def summary_table(history: Mapping[str, Tally], load: Mapping[str, Tally]) -> Table:
    """One row a tenant from the history; where the load counted otherwise, that stands behind."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("tenant")
    for name in COLUMNS:
        table.add_column(name, justify="right")
    table.add_column("refused because")
    for tenant in sorted({*history, *load}):
        ours, theirs = history.get(tenant, Tally()), load.get(tenant, Tally())
        cells = [_cell(*pair) for pair in zip(ours.counts(), theirs.counts(), strict=True)]
        table.add_row(tenant, *cells, _reasons(theirs))
    return table


def summary_json(
    pool: str, history: Mapping[str, Tally], load: Mapping[str, Tally]
) -> dict[str, Any]:
    """The same as plain values."""
    return {
        "pool": pool,
        "equal": agree(history, load),
        "clickhouse": {tenant: _plain(tally) for tenant, tally in history.items()},
        "load": {tenant: tally.to_json() for tenant, tally in load.items()},
    }


def _plain(tally: Tally) -> dict[str, int]:
    return dict(zip(COLUMNS, tally.counts(), strict=True))


def _cell(history: int, load: int) -> Text:
    if history == load:
        return Text(f"{history:,}")
    return Text(f"{history:,} (load: {load:,})", style="red")


def _reasons(tally: Tally) -> str:
    return ", ".join(f"{reason} {count:,}" for reason, count in tally.reasons.most_common(3))
