"""Many reports of one pool in one table, folded at once: the same as one after the other.

NumPy's calls cost more than the few rows of a report. So reports between two decisions are counted
together; what a report says of its gateway is still taken up in the order of the log.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tokenweir.core.fold import (
    COLUMNS,
    MOST_AGE_MS,
    PLACE,
    charged_by,
    gateway_of,
    hear,
    is_recent,
    last_sequence,
)
from tokenweir.core.pool import COUNTERS, GAUGES, Gateway, Pool
from tokenweir.core.terms import Ints
from tokenweir.core.window import add_tokens

COUNTED = [(COUNTERS.index(name), PLACE[name]) for name in COUNTERS if name in PLACE]
CHARGED = COUNTERS.index("charged")
FIRST_GAUGE = len(COLUMNS) - len(GAUGES)
REFUSED_TOKENS = PLACE["refused_tokens"]
# What the tally takes note of, by column.
TALLIED = [
    (name, PLACE[column])
    for name, column in (
        ("refused", "refused"),
        ("waits", "wait_ms"),
        ("ended", "requests"),
        ("failed", "errors"),
    )
]


class Heading(NamedTuple):
    """What a report says besides its rows, and when it came."""

    append_ms: int
    gateway: str
    sequence: int
    applied: int
    closing: bool
    more: bool
    age_ms: int
    rows: int


@dataclass(frozen=True, slots=True)
class Sheet:
    """Reports in the order of the log, their rows one after the other, each within its bounds."""

    headings: Sequence[Heading]
    begins: Sequence[int]  # each report's first row, and where the last one's end
    names: Sequence[str]  # of all reports, each once
    tenant: Ints  # (rows,): place in `names`
    table: Ints  # (columns, rows), in the order of `fold.COLUMNS`
    filled: Sequence[bool]  # (columns,): which are not all 0; those of a part may be

    def part(self, begin: int, end: int) -> "Sheet":
        """The reports from one up to another."""
        first, last = self.begins[begin], self.begins[end]
        return Sheet(
            self.headings[begin:end],
            [row - first for row in self.begins[begin : end + 1]],
            self.names,
            self.tenant[first:last],
            self.table[:, first:last],
            self.filled,
        )


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows that count; arrays of shape (rows,)."""

    tenant: Ints
    table: Ints  # (columns, rows)
    filled: Sequence[bool]  # (columns,)
    page: Ints  # whose report's
    gateway: Ints  # place in the gateways of this sheet
    event_ms: Ints


def fold_sheet(pool: Pool, sheet: Sheet) -> bool:
    """Move the pool's time to each report and count it; none may reach a boundary or a new second.

    False, with the pool unchanged, when one of them has to be looked at alone.
    """
    if pool.quotas.accounts.keys or not _is_sound(pool, sheet):
        return False
    gateways, places, clocks = list[Gateway](), dict[str, int](), list[int]()
    pages = [-1] * len(sheet.headings)  # the gateway of each report that counts
    for number, heading in enumerate(sheet.headings):
        pool.clock_ms = max(pool.clock_ms, heading.append_ms)
        clocks.append(pool.clock_ms)
        _, name, sequence, applied, closing, *_ = heading
        last = last_sequence(pool, name)
        if sequence > last:
            gateway = gateway_of(pool, name)
            hear(pool, gateway, sequence, last, applied, closing=closing)
            pages[number] = places.setdefault(name, len(places))
            if pages[number] == len(gateways):
                gateways.append(gateway)
    rows = _rows(pool, sheet, pages, clocks)
    _gauge(pool, sheet, rows, pages, gateways)
    _count(pool, rows, gateways)
    return True


def _is_sound(pool: Pool, sheet: Sheet) -> bool:
    newest = pool.boundary_ms
    for heading in sheet.headings:
        _, _, sequence, applied, _, _, age_ms, _ = heading
        if sequence < 1 or not 0 <= applied <= newest or not 0 <= age_ms <= MOST_AGE_MS:
            return False
    return True


def _rows(pool: Pool, sheet: Sheet, pages: Sequence[int], clocks: Sequence[int]) -> _Rows:
    count = [heading.rows for heading in sheet.headings]
    cut_ms = [heading.append_ms - heading.age_ms for heading in sheet.headings]
    of_page = np.array([range(len(pages)), pages, cut_ms, clocks], dtype=np.int64)
    page, gateway, cut, clock = np.repeat(of_page, count, axis=1)
    tenant, table = pool.terms.find(sheet.names)[sheet.tenant], sheet.table
    if min(pages) < 0:  # repeats count nothing
        kept = gateway >= 0
        tenant, table, page, gateway = tenant[kept], table[:, kept], page[kept], gateway[kept]
        cut, clock = cut[kept], clock[kept]
    event_ms = np.minimum(cut - table[PLACE["age_ms"]], clock)
    return _Rows(tenant, table, sheet.filled, page, gateway, event_ms)


def _gauge(
    pool: Pool, sheet: Sheet, rows: _Rows, pages: Sequence[int], gateways: Sequence[Gateway]
) -> None:
    """Gauges are whole in each complete report, which may come in parts (R2)."""
    tenants = len(pool.terms.names)
    gauges = np.zeros((len(pages), len(GAUGES), tenants), dtype=np.int64)
    flat, place = gauges.reshape(-1), rows.page * (len(GAUGES) * tenants) + rows.tenant
    for row in range(len(GAUGES)):
        _add(flat, place + row * tenants, rows, FIRST_GAUGE + row)
    for number, heading in enumerate(sheet.headings):
        if pages[number] >= 0:
            _show(gateways[pages[number]], gauges[number], heading.more)


def _show(gateway: Gateway, gauges: Ints, more: bool) -> None:
    gateway.filling = gateway.filling + gauges if gateway.more else gauges
    gateway.more = more
    if not more:
        gateway.gauges, gateway.filling = gateway.filling, gateway.gauges


def _count(pool: Pool, rows: _Rows, gateways: Sequence[Gateway]) -> None:
    cost = charged_by(pool, rows.table)
    tenants = len(pool.terms.names)
    added = np.zeros((len(COUNTERS), tenants), dtype=np.int64)
    for counter, column in COUNTED:
        _add(added[counter], rows.tenant, rows, column)
    np.add.at(added[CHARGED], rows.tenant, cost)
    pool.totals += added.T
    add_tokens(pool.window, rows.tenant, rows.event_ms, cost)
    late = ~is_recent(pool, rows.event_ms)
    if late.any():  # no demand of this interval
        table = np.where(late, 0, rows.table)
        cost, rows = np.where(late, 0, cost), replace(rows, table=table)
        added[:] = 0
        for counter, column in COUNTED:
            _add(added[counter], rows.tenant, rows, column)
    for name, column in TALLIED:
        getattr(pool.tally, name)[:] += added[COUNTERS.index(COLUMNS[column])]
    spent = np.zeros((2, len(gateways), tenants), dtype=np.int64)
    place = rows.gateway * tenants + rows.tenant
    np.add.at(spent[0].reshape(-1), place, np.maximum(cost, 0))
    _add(spent[1].reshape(-1), place, rows, REFUSED_TOKENS)
    for gateway, used, refused in zip(gateways, *spent, strict=True):
        gateway.spent += used
        gateway.refused += refused


def _add(sums: Ints, places: Ints, rows: _Rows, column: int) -> None:
    if rows.filled[column]:
        np.add.at(sums, places, rows.table[column])
