"""What the policy did to tenants, as its decisions and audits say: α, and what was taken back."""

from itertools import pairwise

import numpy as np

from tokenweir.records.journal import TenantFigures
from tokenweir.sim.world import Record


def alphas(record: Record, tenant: str, starts: float, ends: float) -> np.ndarray:
    """α at each decision of a time: of the class of `tenant`, or with `pool` the pool's own."""
    taken = [one for one in record.decisions if starts <= one.at < ends]
    claim = record.scenario.pool.tenants.get(tenant)
    own = getattr(record.scenario.pool.classes, claim.service_class).alpha if claim else None
    if claim is None or own is None:
        return np.array([one.decision.alpha / 1e6 for one in taken])
    changes = [
        (one.at, float(one.audit.after))
        for one in record.audits
        if one.audit.subject == f"alpha of {claim.service_class}"
    ]
    return np.array([_last(changes, one.at, own / 1e6) for one in taken])


def parts_taken(record: Record, tenant: str, starts: float, ends: float) -> np.ndarray:
    """The part that each reclaim took of what a tenant had borrowed."""
    reclaims = {
        one.at
        for one in record.audits
        if one.audit.kind == "reclaim" and tenant in one.audit.lost and starts <= one.at < ends
    }
    parts = [
        1 - _borrowed(after.entry.tenants, tenant) / _borrowed(before.entry.tenants, tenant)
        for before, after in pairwise(record.decisions)
        if after.at in reclaims
    ]
    return np.array(parts)


def pauses(record: Record, tenant: str, starts: float, ends: float) -> np.ndarray:
    """How long each of a tenant's requests was suspended, s, by when it was; only those resumed."""
    lasted = [
        (one.until - one.at) / 1000
        for one in record.pauses
        if one.tenant == tenant and starts <= one.at < ends
    ]
    return np.array(lasted)


def _last(changes: list[tuple[float, float]], at: float, value: float) -> float:
    for when, changed in changes:
        if when <= at:
            value = changed
    return value


def _borrowed(figures: TenantFigures, tenant: str) -> int:
    return figures.borrowed[figures.tenant.index(tenant)]
