"""What the pool and its tenants did, as a decision sees it (DESIGN, decision 1)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tokenweir.core import ONE
from tokenweir.core.breaker import ended
from tokenweir.core.pool import GAUGES, Pool, stacked
from tokenweir.core.smooth import decay, smooth
from tokenweir.core.terms import MIB, Ints, standing
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
UNITS = np.array([1, KV_UNIT], dtype=np.int64)
# Rows of a gateway's gauges: the last two are what waits.
SEQUENCES, KV_BYTES, HELD, QUEUED = 1, 2, 3, 4
# The flows of what is occupied, of sequences and of KV bytes, by the kind of use.
FIRM, LENT = (FIRM_SEQUENCES, FIRM_KV), (LENT_SEQUENCES, LENT_KV)
# Intervals after its last report in which a gateway's queue is taken for demand.
QUEUE_LIVES = 3


@dataclass(frozen=True, slots=True)
class Measures:
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
    gateways, tenants = [*pool.gateways.values()], len(pool.terms.names)
    gauges = stacked([gateway.gauges for gateway in gateways], len(GAUGES), tenants)
    used, refused, held, before = (
        stacked([getattr(gateway, name) for gateway in gateways], tenants)
        for name in ("spent", "refused", "held", "demand")
    )
    lasting = [at_ms - each.seen_ms <= QUEUE_LIVES * spec.interval_ms for each in gateways]
    waiting = gauges[:, QUEUED:] * np.array(lasting, dtype=np.int64)[:, None, None]
    queued = waiting[:, 0].sum(axis=0)
    wanted = used + refused + waiting[:, 1]
    # What is newly held was admitted, and will be produced over many intervals: who comes back
    # with long answers asks for more than it has used so far.
    asked = (wanted + np.maximum(gauges[:, HELD] - held, 0)).sum(axis=0)
    demand = _step(before, _rate(wanted, spec), spec.ewma, skipped)
    for gateway, smoothed in zip(gateways, demand, strict=True):
        gateway.demand = smoothed
    spent = used.sum(axis=0)
    _step_tally(pool, spec, spent, skipped)
    tokens, flows = covered(pool.window, at_ms, spec.window_s)
    # A correction of what has left the window is no credit.
    used = np.maximum(tokens, 0)
    firm, all_ = int((used * standing(pool.terms).firm).sum()), int(used.sum())
    sequences, kv = _occupancy(pool, spec, gauges, queued, skipped)
    integrals: list[int] = flows.tolist()
    return Measures(
        spent=spent,
        demand=np.maximum(_rate(asked, spec), np.minimum(demand.sum(axis=0), MOST_RATE)),
        used=used,
        refused_tokens=refused.sum(axis=0),
        queued=queued,
        sequences=sequences,
        kv=kv,
        level_now=_highest(integrals, firm, FIRM),
        lent=_highest(integrals, all_ - firm, LENT),
        total=_highest(integrals, all_, FIRM, LENT),
        used_tokens=all_,
        budget_tokens=integrals[BUDGET_TOKENS] // 1000,
    )


def _occupancy(
    pool: Pool, spec: PoolSpec, gauges: Ints, queued: Ints, skipped: int
) -> tuple[Ints, Ints]:
    """How many sequences, and how many MiB of the KV cache, each tenant would occupy."""
    tally = pool.tally
    running = gauges[:, SEQUENCES].sum(axis=0)
    kv = (-(-gauges[:, KV_BYTES] // MIB)).sum(axis=0)
    waiting = queued + tally.refused
    each = -(-kv // np.maximum(running, 1))  # MiB a sequence
    # Who runs nothing has not told: as much as others use, or it would never have room to begin.
    each = np.where(running > 0, each, each.max(initial=0))
    sequences = np.minimum(running + waiting, MOST_RATE // 1000)
    kv = np.minimum(kv + waiting * each, MOST_RATE)
    tally.sequences = _step(tally.sequences, sequences * 1000, spec.ewma, skipped)
    tally.kv = _step(tally.kv, kv, spec.ewma, skipped)
    return np.maximum(sequences, -(-tally.sequences // 1000)), np.maximum(kv, tally.kv)


def flow(pool: Pool, until_ms: int) -> None:
    """Integrate what the pool could do and what was occupied since its last decision."""
    roll(pool.window, until_ms)
    add_flow(pool.window, _flow_rates(pool), pool.boundary_ms, until_ms)


def _flow_rates(pool: Pool) -> Ints:
    """The rates of the window's flows as they stand now, a millisecond; shape (7,)."""
    firm = standing(pool.terms).firm
    rates = np.zeros(7, dtype=np.int64)
    capacity = pool.capacity
    rates[BUDGET_TOKENS] = capacity.tokens_per_s // 1000
    rates[BUDGET_SEQUENCES] = capacity.sequences or 0
    rates[BUDGET_KV] = (capacity.kv_bytes or 0) // KV_UNIT
    if pool.gateways:
        parts = [gateway.gauges[SEQUENCES:HELD] for gateway in pool.gateways.values()]
        occupied = stacked(parts, 2, len(firm))
        inside = (occupied * firm).sum(axis=2)
        outside = occupied.sum(axis=2) - inside
        rates[[FIRM_SEQUENCES, FIRM_KV]] = (inside // UNITS).sum(axis=0)
        rates[[LENT_SEQUENCES, LENT_KV]] = (outside // UNITS).sum(axis=0)
    return rates


def _rate(tokens: Ints, spec: PoolSpec) -> Ints:
    rate: Ints = np.minimum(tokens, MOST_RATE) * ONE // spec.interval_ms
    return np.minimum(rate, MOST_RATE)


def _step(before: Ints, now: Ints, gain: int, skipped: int) -> Ints:
    return decay(smooth(before, now, gain), gain, skipped)


def _step_tally(pool: Pool, spec: PoolSpec, spent: Ints, skipped: int) -> None:
    tally, baseline = pool.tally, pool.terms.baseline
    done, failed = int(tally.ended.sum()), int(tally.failed.sum())
    pool.outcomes = ended(pool.outcomes, done, failed, spec.interval_ms, spec.ewma, skipped)
    count(pool, spec, spent)
    rate, refusals = _rate(stacked((spent, tally.refused), len(spent)), spec)
    # Over the baseline, or where there is none over the whole capacity: a share of the pool.
    base = np.maximum(np.where(baseline > 0, baseline, pool.capacity.tokens_per_s), 1)
    excess = np.minimum(np.maximum(rate - baseline, 0) * ONE // base, MOST_LEVEL)
    now = (rate, refusals, np.minimum(tally.waits, MOST_RATE), excess)
    before = (tally.rate, tally.refusals, tally.wait, tally.burst)
    tally.rate, tally.refusals, tally.wait, tally.burst = _step(
        stacked(before, len(rate)), stacked(now, len(rate)), spec.ewma, skipped
    )


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
