"""Many reports of one pool in one table, folded at once: the same as one after the other.

NumPy's calls cost more than the few rows of a report. So what rows mean is found out for all that
were read at once, and reports between two decisions are counted together; what a report says of its
gateway is still taken up in the order of the log.
"""

from collections.abc import Collection, Mapping, Sequence
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
from tokenweir.core.pool import (
    COUNTERS,
    FILLING,
    FIRST_GAUGE,
    GAUGES,
    REFUSED,
    SPENT,
    Pool,
    gathered,
)
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
    counters: Sequence[tuple[int, Ints]]  # by the place in COUNTERS: those that are not all 0
    gauges: Sequence[tuple[int, Ints]]  # the same in GAUGES


class Entries(NamedTuple):
    """Rows that count, in the order of the log; arrays of shape (rows,)."""

    rows: Rows
    at: Ints  # place of a tenant's first figure in all gateways'
    gauged: Ints  # the row of its gateway's figures that the first gauge belongs to; 0: none


def place(pool: Pool, sheet: Sheet) -> Placed:
    """What is the same for all parts of a sheet, as long as the pool's terms are the same ones.

    A spec with other weights brings other terms.
    """
    columns, tenant = sheet.columns, pool.terms.find(sheet.names)[sheet.tenant]
    cut_ms = [each.append_ms - each.age_ms for each in sheet.headings]
    cut = np.array(cut_ms, dtype=np.int64).repeat(np.diff(sheet.begins))
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
    heard = [number for number, each in enumerate(headings, begin) if _hear(pool, each)]
    if heard:
        figures = gathered(pool)
        _count(pool, placed, figures, _entries(pool, placed, figures, heard))
    return True


def _hear(pool: Pool, heading: Heading) -> bool:
    """Whether a report counts: a repeat does not."""
    append_ms, name, sequence, applied, closing, _, _ = heading
    pool.clock_ms = max(pool.clock_ms, append_ms)
    gateway = pool.gateways.get(name)
    last = gateway.sequence if gateway else last_sequence(pool, name)
    if sequence <= last:
        return False
    gateway = gateway or gateway_of(pool, name)
    hear(pool, gateway, sequence, last, applied, closing=closing)
    return True


def _entries(pool: Pool, placed: Placed, figures: Ints, heard: Sequence[int]) -> Entries:
    """The rows of the reports that count, and where they are counted."""
    begins, own = placed.sheet.begins, figures.shape[1] * figures.shape[2]
    places = {name: place for place, name in enumerate(pool.gateways)}
    names = [placed.sheet.headings[number].gateway for number in heard]
    at = [places[name] * own for name in names]
    gauged, anew = _gauged(pool, names, [placed.sheet.headings[number].more for number in heard])
    figures[[places[name] for name in anew], FIRST_GAUGE:FILLING] = 0
    count = [begins[number + 1] - begins[number] for number in heard]
    of_row = np.array((at, gauged), dtype=np.int64).repeat(count, axis=1)
    rows = _rows(begins, heard)
    return Entries(rows, of_row[0] + placed.tenant[rows], of_row[1])


def _rows(begins: Sequence[int], heard: Sequence[int]) -> Rows:
    first, last = heard[0], heard[-1] + 1
    if len(heard) == last - first:
        return slice(begins[first], begins[last])
    rows = [row for number in heard for row in range(begins[number], begins[number + 1])]
    return np.array(rows, dtype=np.int64)


def _gauged(
    pool: Pool, names: Sequence[str], more: Sequence[bool]
) -> tuple[Sequence[int], Collection[str]]:
    """The row of a gateway's figures that each report's first gauge belongs to; 0: none any more.

    Gauges are whole in each complete report, which may come in parts (R2): only the newest one
    counts, and those parts that are not complete yet. Also the gateways whose gauges begin anew.
    """
    complete, filling, anew = dict[str, list[int]](), dict[str, list[int]](), set[str]()
    for place, (name, goes_on) in enumerate(zip(names, more, strict=True)):
        if goes_on:
            filling.setdefault(name, []).append(place)
            continue
        complete[name] = [*filling.pop(name, ()), place]
        gateway = pool.gateways[name]
        if gateway.more:  # it began before
            gateway.gauges[:], gateway.more = gateway.filling, False
            gateway.filling[:] = 0
        else:
            anew.add(name)
    rows = [0] * len(names)
    for places in complete.values():
        for place in places:
            rows[place] = FIRST_GAUGE
    for name, places in filling.items():
        pool.gateways[name].more = True
        for place in places:
            rows[place] = FILLING
    return rows, anew


def _count(pool: Pool, placed: Placed, figures: Ints, entries: Entries) -> None:
    rows, at, gauged = entries
    flat, tenants = figures.reshape(-1), len(pool.terms.names)
    newest = gauged.nonzero()[0]
    into = at[newest] + gauged[newest] * tenants
    for gauge, column in placed.gauges:
        np.add.at(flat[gauge * tenants :], into, column[rows][newest])
    event_ms, charged = placed.event_ms[rows], placed.charged[rows]
    added = _added(placed, rows)
    pool.totals += added.T
    put_tokens(pool.window, placed.second[rows], placed.spot[rows], charged)
    recent = is_recent(pool, event_ms)
    if not recent.all():  # no demand of this interval
        rows, at = np.arange(len(placed.tenant))[rows][recent], at[recent]
        added, charged = _added(placed, rows), charged[recent]
    for name, counter in TALLIED:
        sums: Ints = getattr(pool.tally, name)
        sums += added[counter]
    np.add.at(flat[SPENT * tenants :], at, np.maximum(charged, 0))
    if "refused_tokens" in placed.sheet.columns:
        refused = placed.sheet.columns["refused_tokens"][rows]
        np.add.at(flat[REFUSED * tenants :], at, refused)


def _added(placed: Placed, rows: Rows) -> Ints:
    """The sums of the counters by tenant."""
    added = np.zeros((len(COUNTERS), len(placed.terms.names)), dtype=np.int64)
    tenant = placed.tenant[rows]
    for counter, column in placed.counters:
        np.add.at(added[counter], tenant, column[rows])
    return added
