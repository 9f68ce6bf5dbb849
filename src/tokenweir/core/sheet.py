"""Many reports of one pool in one table, folded at once: the same as one after the other.

NumPy's calls cost more than the few rows of a report. So what rows mean is found out for all that
were read at once, and reports between two decisions are counted together; what a report says of its
gateway is still taken up in the order of the log.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tokenweir.core.fold import (
    COLUMNS,
    TOKENS,
    charged_by,
    gateway_of,
    hear,
    is_recent,
    last_sequence,
)
from tokenweir.core.pool import COUNTERS, GAUGES, Gateway, Pool
from tokenweir.core.terms import Ints, Terms
from tokenweir.core.window import put_tokens, spots

# What the tally takes note of, by counter.
TALLIED = [
    (name, COUNTERS.index(counter))
    for name, counter in (
        ("refused", "refused"),
        ("waits", "wait_ms"),
        ("ended", "requests"),
        ("failed", "errors"),
    )
]
Rows = slice | Ints  # which rows of a sheet


class Heading(NamedTuple):
    """What a report says besides its rows, each within its bounds, and when it came."""

    append_ms: int
    gateway: str
    sequence: int
    applied: int
    closing: bool
    more: bool
    age_ms: int


@dataclass(frozen=True, slots=True)
class Sheet:
    """Reports in the order of the log, their rows one after the other, each within its bounds."""

    headings: Sequence[Heading]
    begins: Sequence[int]  # each report's first row, and where the last one's end
    names: Sequence[str]  # of all reports, each once
    tenant: Ints  # (rows,): place in `names`
    columns: Mapping[str, Ints]  # (rows,), of `fold.COLUMNS`: those that are not all 0


class Part(NamedTuple):
    """The reports of a sheet from one up to another."""

    sheet: Sheet
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Placed:
    """A sheet as a pool with these terms counts it; arrays of shape (rows,)."""

    sheet: Sheet
    terms: Terms
    tenant: Ints  # place in the terms
    event_ms: Ints
    second: Ints  # of the event
    spot: Ints  # its place in the window
    charged: Ints
    gateways: Sequence[int]  # of each report: its number among those of the sheet
    by_gateway: Ints  # place in a matrix (gateways, tenants)
    by_report: Ints  # place of the first gauge in one of (reports, gauges, tenants)
    counters: Sequence[tuple[int, Ints]]  # by the place in COUNTERS: those that are not all 0
    gauges: Sequence[tuple[int, Ints]]  # the same in GAUGES


def place(pool: Pool, sheet: Sheet) -> Placed:
    """What is the same for all parts of a sheet, as long as the pool's terms are the same ones.

    A spec with other weights brings other terms.
    """
    tenants, columns = len(pool.terms.names), sheet.columns
    tenant = pool.terms.find(sheet.names)[sheet.tenant]
    numbers = dict[str, int]()
    gateways = [numbers.setdefault(each.gateway, len(numbers)) for each in sheet.headings]
    cut_ms = [each.append_ms - each.age_ms for each in sheet.headings]
    of_report = np.array([range(len(gateways)), gateways, cut_ms], dtype=np.int64)
    report, gateway, cut = of_report.repeat(np.diff(sheet.begins), axis=1)
    nothing = np.zeros_like(tenant)
    charged = charged_by(pool, *(columns.get(name, nothing) for name in COLUMNS[TOKENS]))
    counted = {**columns, "charged": charged}
    event_ms = cut - columns.get("age_ms", nothing)
    second, spot = spots(pool.window, tenant, event_ms)
    return Placed(
        sheet=sheet,
        terms=pool.terms,
        tenant=tenant,
        event_ms=event_ms,
        second=second,
        spot=spot,
        charged=charged,
        gateways=gateways,
        by_gateway=gateway * tenants + tenant,
        by_report=report * (len(GAUGES) * tenants) + tenant,
        counters=[(row, counted[name]) for row, name in enumerate(COUNTERS) if name in counted],
        gauges=[(row, columns[name]) for row, name in enumerate(GAUGES) if name in columns],
    )


def fold_placed(pool: Pool, placed: Placed, begin: int, end: int) -> bool:
    """Move the pool's time to each report of a part and count it, after `place`.

    None may reach a boundary or a new second. False, with the pool unchanged, when one of them has
    to be looked at alone.
    """
    headings = placed.sheet.headings[begin:end]
    if pool.quotas.accounts.keys or max(each.applied for each in headings) > pool.boundary_ms:
        return False
    heard = dict[int, Gateway]()  # by the number of a report that counts
    for number, heading in enumerate(headings, begin):
        gateway = _hear(pool, heading)
        if gateway is not None:
            heard[number] = gateway
    _gauge(pool, placed, begin, end, heard)
    _count(pool, placed, _rows(placed.sheet, begin, end, heard), heard)
    return True


def _hear(pool: Pool, heading: Heading) -> Gateway | None:
    """The gateway of a report; None for a repeat, which counts nothing."""
    append_ms, name, sequence, applied, closing, _, _ = heading
    pool.clock_ms = max(pool.clock_ms, append_ms)
    gateway = pool.gateways.get(name)
    last = gateway.sequence if gateway else last_sequence(pool, name)
    if sequence <= last:
        return None
    gateway = gateway or gateway_of(pool, name)
    hear(pool, gateway, sequence, last, applied, closing=closing)
    return gateway


def _rows(sheet: Sheet, begin: int, end: int, heard: Mapping[int, Gateway]) -> Rows:
    """The rows of the reports that count."""
    begins = sheet.begins
    if len(heard) == end - begin:
        return slice(begins[begin], begins[end])
    rows = [row for number in heard for row in range(begins[number], begins[number + 1])]
    return np.array(rows, dtype=np.int64)


def _gauge(pool: Pool, placed: Placed, begin: int, end: int, heard: Mapping[int, Gateway]) -> None:
    """Gauges are whole in each complete report, which may come in parts (R2)."""
    tenants, sheet = len(pool.terms.names), placed.sheet
    gauges = np.zeros((end - begin, len(GAUGES), tenants), dtype=np.int64)
    rows = slice(sheet.begins[begin], sheet.begins[end])
    places = placed.by_report[rows] - begin * len(GAUGES) * tenants
    for gauge, column in placed.gauges:
        np.add.at(gauges.reshape(-1)[gauge * tenants :], places, column[rows])
    for number, gateway in heard.items():
        _show(gateway, gauges[number - begin], sheet.headings[number].more)


def _show(gateway: Gateway, gauges: Ints, more: bool) -> None:
    gateway.filling = gateway.filling + gauges if gateway.more else gauges
    gateway.more = more
    if not more:
        gateway.gauges, gateway.filling = gateway.filling, gateway.gauges


def _count(pool: Pool, placed: Placed, rows: Rows, heard: Mapping[int, Gateway]) -> None:
    event_ms = placed.event_ms[rows]
    added = _added(placed, rows)
    pool.totals += added.T
    put_tokens(pool.window, placed.second[rows], placed.spot[rows], placed.charged[rows])
    recent = is_recent(pool, event_ms)
    if not recent.all():  # no demand of this interval
        rows = np.arange(len(placed.tenant))[rows][recent]
        added = _added(placed, rows)
    for name, counter in TALLIED:
        sums: Ints = getattr(pool.tally, name)
        sums += added[counter]
    gateways = {placed.gateways[number]: gateway for number, gateway in heard.items()}
    spent = _by_gateway(placed, rows, np.maximum(placed.charged[rows], 0))
    for number, gateway in gateways.items():
        gateway.spent += spent[number]
    if "refused_tokens" in placed.sheet.columns:
        refused = _by_gateway(placed, rows, placed.sheet.columns["refused_tokens"][rows])
        for number, gateway in gateways.items():
            gateway.refused += refused[number]


def _added(placed: Placed, rows: Rows) -> Ints:
    """The sums of the counters by tenant."""
    added = np.zeros((len(COUNTERS), len(placed.terms.names)), dtype=np.int64)
    tenant = placed.tenant[rows]
    for counter, column in placed.counters:
        np.add.at(added[counter], tenant, column[rows])
    return added


def _by_gateway(placed: Placed, rows: Rows, tokens: Ints) -> Ints:
    """The sums of a column by gateway and tenant."""
    sums = np.zeros((max(placed.gateways) + 1, len(placed.terms.names)), dtype=np.int64)
    np.add.at(sums.reshape(-1), placed.by_gateway[rows], tokens)
    return sums
