"""What is left of quotas, and how much of it may be granted until the next decision (promise 4)."""

from dataclasses import dataclass, replace

import numpy as np

from tokenweir.core import ONE
from tokenweir.core.pool import Pool
from tokenweir.core.quota.quotas import (
    ASKED,
    CEILING_AFTER,
    HELD,
    HELD_THEN,
    NOW,
    PEAK,
    SPENT,
    WANTED,
    Share,
    counted,
)
from tokenweir.core.quota.turn import limits
from tokenweir.core.smooth import decay, smooth
from tokenweir.core.terms import UNLIMITED, Ints, Terms
from tokenweir.records.spec import PoolSpec

AHEAD = 3  # intervals that ceilings run ahead of reports: report, decide, and one to spare
MOST_RATE = 10**12  # milli-tokens/s
MICRO = 1_000_000  # milli-tokens/s times ms, in a token


@dataclass(frozen=True, slots=True)
class Rations:
    """Charged tokens of the windows that run; arrays of shape (accounts,)."""

    limit: Ints
    spent: Ints  # what counts as spent: reported, and of silent gateways all that was given
    left: Ints


def ahead_ms(spec: PoolSpec) -> int:
    """How far ceilings run ahead of reported use: at most one lease life (Q1)."""
    return min(AHEAD * spec.interval_ms, spec.lease_ms)


def ration(pool: Pool, spec: PoolSpec, at_ms: int, skipped: int) -> Rations:
    """Step what each account wants, and see what is left of it.

    `skipped` boundaries went by without a message; they only repeat the decays (T2).
    """
    quotas = pool.quotas
    for share in quotas.shares.values():
        _step_wants(share, spec, skipped)
    limit = _fitted(pool, limits(quotas))
    spent = np.zeros(len(quotas.accounts.keys), dtype=np.int64)
    for name, share in quotas.shares.items():
        used, given = share.figures[SPENT][NOW], counted(share)
        gateway = pool.gateways.get(name)
        silent = gateway is None or at_ms - gateway.seen_ms > spec.lease_ms
        spent += np.maximum(used, given) if silent else used
    return Rations(limit, spent, np.maximum(limit - spent, 0))


def _fitted(pool: Pool, limit: Ints) -> Ints:
    """The limits with what tuning makes of those of tenants as a whole, in this pool alone."""
    accounts, factor = pool.quotas.accounts, pool.tally.limit
    if not factor.any():
        return limit
    own = accounts.of_tenants[~accounts.across[accounts.of_tenants]]
    tuned = factor[accounts.tenant[own]]
    limit = limit.copy()
    limit[own] = (limit[own] * (np.where(tuned > 0, tuned, ONE) / ONE)).astype(np.int64)
    return limit


def capped(terms: Terms, cap: Ints) -> Terms:
    """The terms under which nobody is granted more than its cap, neither floor nor loan."""
    if not len(cap) or int(cap.min()) >= UNLIMITED:
        return terms
    baseline = np.minimum(terms.baseline, cap)
    most = np.clip(cap - baseline, 0, terms.borrow_cap)
    return replace(terms, baseline=baseline, borrow_cap=most)


def rate_of(share: Share, places: Ints, interval_ms: int) -> Ints:
    """What accounts ask of one gateway, milli-tokens/s: now, or smoothed where that is more."""
    rate: Ints = np.maximum(_asked(share, places, interval_ms), share.figures[WANTED, places])
    return rate


def soon(share: Share, places: Ints, spec: PoolSpec) -> Ints:
    """What accounts will ask of one gateway before its next ceiling is there, charged tokens.

    Twice what they ever asked for in one interval of late, so that large requests that are far
    apart find room.
    """
    flows = rate_of(share, places, spec.interval_ms) * ahead_ms(spec) // MICRO
    found: Ints = np.maximum(flows, 2 * share.figures[PEAK, places])
    return found


def _step_wants(share: Share, spec: PoolSpec, skipped: int) -> None:
    asked, wanted = _admitted(share), share.figures[WANTED]
    some = np.flatnonzero((asked > 0) | (wanted > 0))
    if len(some):
        rate = _asked(share, some, spec.interval_ms)
        peak = share.figures[PEAK]
        peak[some] = np.maximum(peak[some], np.minimum(asked[some], MOST_RATE))
        wanted[some] = decay(smooth(wanted[some], rate, spec.ewma), spec.ewma, skipped)


def _admitted(share: Share) -> Ints:
    """What was asked for since the last decision: what is newly held was admitted then."""
    figures = share.figures
    found: Ints = figures[ASKED] + np.maximum(figures[HELD] - figures[HELD_THEN], 0)
    return found


def _asked(share: Share, places: Ints, interval_ms: int) -> Ints:
    tokens = np.minimum(_admitted(share)[places], MOST_RATE)
    rate: Ints = np.minimum(tokens * MICRO // interval_ms, MOST_RATE)
    return rate


def caps(pool: Pool, spec: PoolSpec, left: Ints, at_ms: int) -> Ints:
    """The smallest part that is left of a tenant's quotas, as a rate that lasts one interval.

    Milli-tokens/s, shape (tenants,).

    Shortly before a window ends its ceilings hold use back, and the next window's grant is ready
    when it begins: use in one window refuses nothing in the next.
    """
    cap = np.full(len(pool.terms.names), UNLIMITED, dtype=np.int64)
    quotas, accounts = pool.quotas, pool.quotas.accounts
    whole = accounts.of_tenants
    if len(whole):
        ends = quotas.ends_ms()[whole] <= at_ms + ahead_ms(spec)
        left = np.where(ends, np.maximum(left[whole], next_limits(pool)[whole]), left[whole])
        most = UNLIMITED // MICRO * spec.interval_ms
        rate = np.minimum(left, most) * MICRO // spec.interval_ms
        np.minimum.at(cap, accounts.tenant[whole], rate)
    return cap


def next_limits(pool: Pool) -> Ints:
    """What may be spent of each account's next window at least, as far as is known."""
    accounts = pool.quotas.accounts
    ceilings = pool.quotas.columns[CEILING_AFTER]
    return _fitted(pool, np.where(accounts.across, ceilings, accounts.tokens))
