"""Quotas in a decision: before the grants what is left, after the leases how it is kept."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tokenweir.core.leases import Leased
from tokenweir.core.pool import Pool
from tokenweir.core.quota.guard import NOTHING, Guarded, guard
from tokenweir.core.quota.loans import Loan, lend
from tokenweir.core.quota.rations import Rations, caps, ration
from tokenweir.core.quota.turn import Turn, turn
from tokenweir.core.terms import UNLIMITED, Bools, Ints
from tokenweir.records.spec import PoolSpec

NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Rationed:
    """What is left of quotas; `cap` has the shape (tenants,): milli-tokens/s."""

    rations: Rations
    cap: Ints
    turns: tuple[Turn, ...]
    loans: tuple[Loan, ...]


def ration_quotas(pool: Pool, spec: PoolSpec, at_ms: int, skipped: int) -> Rationed:
    """Move the windows on, lend what they will leave, and say what may be granted."""
    if not pool.quotas.accounts.keys:
        return _unlimited(len(pool.terms.names))
    turns = turn(pool.quotas, at_ms)
    rations, loans = lend(pool, spec, at_ms, ration(pool, spec, at_ms, skipped))
    return Rationed(rations, caps(pool, spec, rations.left, at_ms), turns, loans)


@lru_cache(maxsize=64)
def _unlimited(tenants: int) -> Rationed:
    """What is left where nobody has a quota."""
    cap = np.full(tenants, UNLIMITED, dtype=np.int64)
    cap.setflags(write=False)  # all decisions share it
    return Rationed(Rations(NONE, NONE, NONE), cap, (), ())


def guard_quotas(
    pool: Pool, spec: PoolSpec, at_ms: int, rationed: Rationed, leased: Leased, present: Bools
) -> Guarded:
    """Raise the ceilings of who is here or has a lease, and bar whom nothing else guards."""
    if not pool.quotas.accounts.keys:
        return NOTHING
    renewed = {
        name: issue.expires_ms == at_ms + spec.lease_ms for name, issue in leased.issues.items()
    }
    busy = present | (leased.given > 0)
    return guard(pool, spec, at_ms, rationed.rations, busy, renewed)
