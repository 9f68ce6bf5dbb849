"""What the pool and its tenants did, as a decision sees it (DESIGN, decision 1)."""

from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from tokenweir.core import ONE
from tokenweir.core.breaker import ended
from tokenweir.core.pool import DEMAND, FILLING, GAUGED, HELD, REFUSED, SPENT, Pool, gathered
from tokenweir.core.smooth import decay, smooth
from tokenweir.core.terms import MIB, Ints, Terms, standing
from tokenweir.core.tuning import count
from tokenweir.core.window import (
    BUDGET_KV,
    BUDGET_SEQUENCES,
    BUDGET_TOKENS,
    FIRM_KV,
    FIRM_SEQUENCES,
    LENT_KV,
    LENT_SEQUENCES,
    add_flow,
    covered,
    roll,
)
from tokenweir.records.spec import PoolSpec

# No demand or level is taken for more than this, so that sums stay within 64 bits.
MOST_RATE = 10**12
MOST_LEVEL = 1000 * ONE
# KV bytes are integrated in units of 64 KiB, so that their sums stay within 64 bits.
KV_UNIT = 65_536
UNITS = np.array([1, 1, KV_UNIT, KV_UNIT], dtype=np.int64)
_, SEQUENCES, KV_BYTES, HELD_NOW, QUEUED, QUEUED_TOKENS = GAUGED.values()
OCCUPIED = slice(SEQUENCES, KV_BYTES + 1)
# The flows of what is occupied, of sequences and of KV bytes, by the kind of use.
FIRM, LENT = (FIRM_SEQUENCES, FIRM_KV), (LENT_SEQUENCES, LENT_KV)
# What of the tally is smoothed.
SMOOTHED = attrgetter("rate", "refusals", "wait", "burst", "sequences", "kv")
# Intervals after its last report in which a gateway's queue is taken for demand.
QUEUE_LIVES = 3


class Measures(NamedTuple):
    """Arrays of shape (tenants,): rates in milli-tokens/s, amounts in charged tokens."""

    spent: Ints
    demand: Ints  # spent, newly held, refused and queued; or smoothed where that is more
    used: Ints  # over the window
    refused_tokens: Ints
    queued: Ints  # requests
    sequences: Ints  # occupied, queued and refused: now, or smoothed where that is more
    kv: Ints  # the same in MiB of the KV cache
    level_now: int  # of the firm use, millionths: the highest of the three resources
    lent: int  # the same of what spot and preemptible take
    total: int  # of all use together, the same way
    used_tokens: int  # of all tenants over the window
    budget_tokens: int


def measure(pool: Pool, spec: PoolSpec, at_ms: int, skipped: int) -> Measures:
    """Close the interval that ends at `at_ms`: step the smoothed figures, read the window.

    `skipped` boundaries went by without a message; they only repeat the decays (T2).
    """
    tally = pool.tally
    figures = _figures(pool, spec, at_ms)
    sums = figures[:, :FILLING].sum(axis=0)
    wanted = figures[:, SPENT] + figures[:, REFUSED] + figures[:, QUEUED_TOKENS]
    # What is newly held was admitted, and will be produced over many intervals: who comes back
    # with long answers asks for more than it has used so far.
    asked = (wanted + np.maximum(figures[:, HELD_NOW] - figures[:, HELD], 0)).sum(axis=0)
    _count_ended(pool, spec, skipped)
    count(pool, spec, sums[SPENT])
    rates = _rate(_lines(wanted, sums[SPENT], tally.refused, asked), spec)
    sequences, kv = _occupancy(figures, sums, tally.refused)
    excess = _excess(pool.terms, pool.capacity.tokens_per_s, rates[len(figures)])
    waits = np.minimum(tally.waits, MOST_RATE)
    now = _lines(rates[:-1], waits, excess, sequences * 1000, kv)
    demand = _smooth(pool, figures[:, DEMAND], now, spec.ewma, skipped)
    tokens, flows = covered(pool.window, at_ms, spec.window_s)
    # A correction of what has left the window is no credit.
    used = np.maximum(tokens, 0)
    firm, lent = (used @ standing(pool.terms).sides).tolist()
    integrals: list[int] = flows.tolist()
    return Measures(
        spent=sums[SPENT],
        demand=np.maximum(rates[-1], np.minimum(demand.sum(axis=0), MOST_RATE)),
        used=used,
        refused_tokens=sums[REFUSED],
        queued=sums[QUEUED],
        sequences=np.maximum(sequences, -(-tally.sequences // 1000)),
        kv=np.maximum(kv, tally.kv),
        level_now=_highest(integrals, firm, FIRM),
        lent=_highest(integrals, lent, LENT),
        total=_highest(integrals, firm + lent, FIRM, LENT),
        used_tokens=firm + lent,
        budget_tokens=integrals[BUDGET_TOKENS] // 1000,
    )


def _figures(pool: Pool, spec: PoolSpec, at_ms: int) -> Ints:
    """All gateways' figures, without queues of the silent."""
    figures, oldest_ms = gathered(pool), at_ms - QUEUE_LIVES * spec.interval_ms
    silent = [gateway.seen_ms < oldest_ms for gateway in pool.gateways.values()]
    if any(silent):
        figures = figures.copy()
        figures[silent, QUEUED:FILLING] = 0
    return figures


def _lines(*parts: Ints) -> Ints:
    """Matrices and lines, the last ones, below each other; shape (…, tenants)."""
    return np.concatenate([part.reshape(-1) for part in parts]).reshape(-1, len(parts[-1]))


def _smooth(pool: Pool, before: Ints, now: Ints, gain: int, skipped: int) -> Ints:
    """Step the gateways' demand, which was `before`, and the tally; the demand afterwards."""
    tally, gateways = pool.tally, len(pool.gateways)
    after = decay(smooth(_lines(before, *SMOOTHED(tally)), now, gain), gain, skipped)
    gathered(pool)[:, DEMAND] = after[:gateways]
    tally.rate, tally.refusals, tally.wait, tally.burst, *occupied = after[gateways:]
    tally.sequences, tally.kv = occupied
    return after[:gateways]


def _occupancy(figures: Ints, sums: Ints, refused: Ints) -> tuple[Ints, Ints]:
    """How many sequences, and how many MiB of the KV cache, each tenant would occupy."""
    running, waiting = sums[SEQUENCES], sums[QUEUED] + refused
    sequences = np.minimum(running + waiting, MOST_RATE // 1000)
    kv = sums[KV_BYTES]
    if kv.any():  # else no gateway tells them
        kv = (-(-figures[:, KV_BYTES] // MIB)).sum(axis=0)
        each = -(-kv // np.maximum(running, 1))  # MiB a sequence
        # Who runs nothing has not told: as much as others use, or it would never have room.
        each = np.where(running > 0, each, each.max(initial=0))
        kv = np.minimum(kv + waiting * each, MOST_RATE)
    return sequences, kv


def flow(pool: Pool, until_ms: int) -> None:
    """Integrate what the pool could do and what was occupied since its last decision."""
    roll(pool.window, until_ms)
    add_flow(pool.window, _flow_rates(pool), pool.boundary_ms, until_ms)


def _flow_rates(pool: Pool) -> Ints:
    """The rates of the window's flows as they stand now, a millisecond; shape (7,)."""
    capacity = pool.capacity
    rates = np.zeros(7, dtype=np.int64)
    rates[BUDGET_TOKENS] = capacity.tokens_per_s // 1000
    rates[BUDGET_SEQUENCES] = capacity.sequences or 0
    rates[BUDGET_KV] = (capacity.kv_bytes or 0) // KV_UNIT
    occupied = gathered(pool)[:, OCCUPIED].reshape(-1, len(pool.terms.names))
    by_side = (occupied @ standing(pool.terms).sides).reshape(-1, len(UNITS))
    rates[FIRM_SEQUENCES:] = (by_side // UNITS).sum(axis=0)
    return rates


def _rate(tokens: Ints, spec: PoolSpec) -> Ints:
    rate: Ints = np.minimum(tokens, MOST_RATE) * ONE // spec.interval_ms
    return np.minimum(rate, MOST_RATE)


def _count_ended(pool: Pool, spec: PoolSpec, skipped: int) -> None:
    done, failed = int(pool.tally.ended.sum()), int(pool.tally.failed.sum())
    pool.outcomes = ended(pool.outcomes, done, failed, spec.interval_ms, spec.ewma, skipped)


def _excess(terms: Terms, capacity: int, rate: Ints) -> Ints:
    """What is used above the baseline, in millionths of it."""
    excess: Ints = np.maximum(rate - terms.baseline, 0) * ONE // _base(terms, capacity)
    return np.minimum(excess, MOST_LEVEL)


@lru_cache(maxsize=64)
def _base(terms: Terms, capacity: int) -> Ints:
    """The baseline, or where there is none the whole capacity: a share of the pool."""
    return np.maximum(np.where(terms.baseline > 0, terms.baseline, capacity), 1)


def _level(used: int, budget: int) -> int:
    if budget <= 0:  # no capacity: full as soon as anything is used
        return ONE if used > 0 else 0
    return min(used * ONE // budget, MOST_LEVEL)


def _highest(flows: Sequence[int], tokens: int, *kinds: tuple[int, int]) -> int:
    """The level of the resource that is used most, of `kinds` of use together."""
    level = _level(tokens, flows[BUDGET_TOKENS] // 1000)
    for budget, rows in zip((BUDGET_SEQUENCES, BUDGET_KV), zip(*kinds, strict=True), strict=True):
        if flows[budget] > 0:
            level = max(level, _level(sum(flows[row] for row in rows), flows[budget]))
    return level
