"""What gateways may have spent of quotas that nobody has heard of yet (PROTOCOL Q1, L8)."""

from dataclasses import dataclass

import numpy as np

from tokenweir.core import ONE
from tokenweir.core.pool import Gateway, Pool
from tokenweir.core.quota.quotas import NOW, SINCE, SPENT, counted
from tokenweir.core.terms import Ints
from tokenweir.records.spec import PoolSpec


@dataclass(frozen=True, slots=True)
class Exposure:
    """Charged tokens of all gateways together, in the window that runs; shapes (accounts,)."""

    committed: Ints  # given or spent, and what pots could give where no ceiling is known to hold
    idle: Ints  # the same, if no ceiling held anywhere
    pots: Ints  # what all pots could give


def exposure(pool: Pool, spec: PoolSpec) -> Exposure:
    """Ceilings count as spent, since a silent gateway may have spent them."""
    quotas = pool.quotas
    rank = pool.terms.rank[quotas.accounts.tenant]
    committed, idle, pots = (np.zeros(len(rank), dtype=np.int64) for _ in range(3))
    for name, share in quotas.shares.items():
        gateway = pool.gateways.get(name)
        given, spent = counted(share), share.figures[SPENT][NOW]
        if gateway is None or not gateway.issued:
            committed += np.maximum(given, spent)
            idle += np.maximum(given, spent)
            continue
        pot = pot_takes(spec, gateway)[rank]
        pots += pot
        idle += np.maximum(given, spent + pot)
        committed += np.maximum(given, spent + unheard(pool, spec, gateway))
    return Exposure(committed, idle, pots)


def unheard(pool: Pool, spec: PoolSpec, gateway: Gateway) -> Ints:
    """What a gateway may have spent of each account where it knows of no ceiling and no bar."""
    quotas = pool.quotas
    tenant, since = quotas.accounts.tenant, quotas.columns[SINCE]
    if not gateway.issued:
        return np.zeros(len(tenant), dtype=np.int64)
    pot = pot_takes(spec, gateway)[pool.terms.rank[tenant]]
    takes = np.maximum(pot, _takes(spec, _largest(gateway))[tenant])
    exposed = (since == 0) | (since > max(gateway.applied_ms, gateway.first_ms))
    found: Ints = np.where(exposed, takes, 0)
    return found


def pot_takes(spec: PoolSpec, gateway: Gateway) -> Ints:
    """What a tenant of each class may take from a gateway's pot before anybody hears of it; (5,).

    Pots last a lease life, their burst an interval, and the report comes an interval later.
    """
    pot = max((issue.pot for issue in gateway.issued), default=0)
    shares = np.array([terms.starter for terms in spec.classes], dtype=np.int64)
    return _takes(spec, pot * shares // ONE)


def _takes(spec: PoolSpec, rate: Ints) -> Ints:
    return -(-rate // 1000) * (spec.lease_ms + 2 * spec.interval_ms) // 1000


def _largest(gateway: Gateway) -> Ints:
    """The largest rate of each lease that may bind still; shape (tenants,)."""
    largest = gateway.issued[0].rates
    for issue in gateway.issued[1:]:
        largest = np.maximum(largest, issue.rates)
    return largest
