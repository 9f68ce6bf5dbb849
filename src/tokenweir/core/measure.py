"""What the pool and its tenants did, as a decision sees it (DESIGN, decision 1)."""

from dataclasses import dataclass

import numpy as np

from tokenweir.core import ONE
from tokenweir.core.breaker import ended
from tokenweir.core.pool import Pool
from tokenweir.core.smooth import decay, smooth
from tokenweir.core.terms import ELASTIC, MIB, Ints
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
    columns,
    roll,
)
from tokenweir.records.spec import PoolSpec

# No demand or level is taken for more than this, so that sums stay within 64 bits.
MOST_RATE = 10**12
MOST_LEVEL = 1000 * ONE
# KV bytes are integrated in units of 64 KiB, so that their sums stay within 64 bits.
KV_UNIT = 65_536
# Intervals after its last report in which a gateway's queue is taken for demand.
QUEUE_LIVES = 3


@dataclass(frozen=True, slots=True)
class Measures:
    """Arrays of shape (tenants,): rates in milli-tokens/s, amounts in charged tokens."""

    spent: Ints
    demand: Ints  # spent, newly held, refused and queued; or smoothed where that is more
    used: Ints  # over the window
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
    tenants = len(pool.terms.names)
    spent = np.zeros(tenants, dtype=np.int64)
    asked = np.zeros(tenants, dtype=np.int64)
    queued = np.zeros(tenants, dtype=np.int64)
    smoothed = np.zeros(tenants, dtype=np.int64)
    for gateway in pool.gateways.values():
        wanted = gateway.spent + gateway.refused
        if at_ms - gateway.seen_ms <= QUEUE_LIVES * spec.interval_ms:
            wanted = wanted + gateway.gauges[5]
            queued += gateway.gauges[4]
        spent += gateway.spent
        # What is newly held was admitted, and will be produced over many intervals: who comes back
        # with long answers asks for more than it has used so far.
        asked += wanted + np.maximum(gateway.gauges[3] - gateway.held, 0)
        gateway.demand = _step(gateway.demand, _rate(wanted, spec), spec.ewma, skipped)
        smoothed += gateway.demand
    _step_tally(pool, spec, spent, skipped)
    covered = columns(pool.window, at_ms, spec.window_s)
    # A correction of what has left the window is no credit.
    used = np.maximum(pool.window.tokens[:, covered].sum(axis=1), 0)
    flows = pool.window.flows[:, covered].sum(axis=1)
    firm = pool.terms.of_class(ELASTIC)
    budget = int(flows[BUDGET_TOKENS]) // 1000
    sequences, kv = _occupancy(pool, spec, queued, skipped)
    return Measures(
        spent=spent,
        demand=np.maximum(_rate(asked, spec), np.minimum(smoothed, MOST_RATE)),
        used=used,
        queued=queued,
        sequences=sequences,
        kv=kv,
        level_now=max(
            _level(int(used[firm].sum()), budget),
            _occupied(flows, FIRM_SEQUENCES, BUDGET_SEQUENCES),
            _occupied(flows, FIRM_KV, BUDGET_KV),
        ),
        lent=max(
            _level(int(used[~firm].sum()), budget),
            _occupied(flows, LENT_SEQUENCES, BUDGET_SEQUENCES),
            _occupied(flows, LENT_KV, BUDGET_KV),
        ),
        total=max(
            _level(int(used.sum()), budget),
            _occupied(flows, [FIRM_SEQUENCES, LENT_SEQUENCES], BUDGET_SEQUENCES),
            _occupied(flows, [FIRM_KV, LENT_KV], BUDGET_KV),
        ),
        used_tokens=int(used.sum()),
        budget_tokens=budget,
    )


def _occupancy(pool: Pool, spec: PoolSpec, queued: Ints, skipped: int) -> tuple[Ints, Ints]:
    """How many sequences, and how many MiB of the KV cache, each tenant would occupy."""
    tally, tenants = pool.tally, len(pool.terms.names)
    running = np.zeros(tenants, dtype=np.int64)
    kv = np.zeros(tenants, dtype=np.int64)
    for gateway in pool.gateways.values():
        running += gateway.gauges[1]
        kv += -(-gateway.gauges[2] // MIB)
    waiting = queued + tally.refused
    each = -(-kv // np.maximum(running, 1))  # MiB a sequence
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
    firm = pool.terms.of_class(ELASTIC)
    rates = np.zeros(7, dtype=np.int64)
    capacity = pool.capacity
    rates[BUDGET_TOKENS] = capacity.tokens_per_s // 1000
    rates[BUDGET_SEQUENCES] = capacity.sequences or 0
    rates[BUDGET_KV] = (capacity.kv_bytes or 0) // KV_UNIT
    for gateway in pool.gateways.values():
        _, sequences, kv_bytes = gateway.gauges[:3]
        rates[FIRM_SEQUENCES] += sequences[firm].sum()
        rates[LENT_SEQUENCES] += sequences[~firm].sum()
        rates[FIRM_KV] += kv_bytes[firm].sum() // KV_UNIT
        rates[LENT_KV] += kv_bytes[~firm].sum() // KV_UNIT
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
    rate = _rate(spent, spec)
    tally.rate = _step(tally.rate, rate, spec.ewma, skipped)
    tally.refusals = _step(tally.refusals, _rate(tally.refused, spec), spec.ewma, skipped)
    tally.wait = _step(tally.wait, np.minimum(tally.waits, MOST_RATE), spec.ewma, skipped)
    # Over the baseline, or where there is none over the whole capacity: a share of the pool.
    base = np.maximum(np.where(baseline > 0, baseline, pool.capacity.tokens_per_s), 1)
    excess = np.minimum(np.maximum(rate - baseline, 0) * ONE // base, MOST_LEVEL)
    tally.burst = _step(tally.burst, excess, spec.ewma, skipped)


def _level(used: int, budget: int) -> int:
    if budget <= 0:  # no capacity: full as soon as anything is used
        return ONE if used > 0 else 0
    return min(used * ONE // budget, MOST_LEVEL)


def _occupied(flows: Ints, used: int | list[int], budget: int) -> int:
    return _level(int(flows[used].sum()), int(flows[budget])) if flows[budget] > 0 else 0
