"""A pool whose tenants always ask for the same, look after look of the tuning.

Grants are those of the core; what is not granted is refused. Between two looks nothing changes, so
one computation stands for all decisions of that time.
"""

import random
from collections.abc import Iterator, Sequence

import numpy as np

from tests.pools import ONE, START, pool_with, ppm, spec, tenant
from tokenweir.core.actions import actions_of
from tokenweir.core.alpha import tuned
from tokenweir.core.grants import grants
from tokenweir.core.pool import Pool
from tokenweir.core.step import advance
from tokenweir.core.terms import Ints
from tokenweir.core.tier import TierState, next_tier
from tokenweir.core.tuning import limited, tune
from tokenweir.core.weights import weights
from tokenweir.records.journal import AuditEntry
from tokenweir.records.spec import CLASSES, Entitlement, PoolSpec, Quota, TuningTerms
from tokenweir.spec.zones import zone_of

EVERY_MS = 60_000
CAPACITY, AVAILABLE = 10_000_000, 9_000_000  # milli-tokens/s
HOUR_S = 3_600


class Constant:
    """One pool with constant demand; `dice` tells its tenants, its spec and what they ask for."""

    def __init__(self, dice: random.Random, noise: int = 0) -> None:
        self.dice, self.noise = dice, noise
        self.spec = _spec(dice)
        self.pool: Pool = pool_with(self.spec)
        advance(self.pool, START)
        names = self.pool.terms.names
        self.demand = np.array([dice.choice(DEMANDS) * 1000 for _ in names], dtype=np.int64)
        self.tier = TierState()
        self.at_ms = START
        tune(self.pool, self.spec, START)

    def looks(self, count: int) -> Iterator[tuple[AuditEntry, ...]]:
        """What each look changed."""
        for _ in range(count):
            self._pass()
            yield tune(self.pool, self.spec, self.at_ms)

    @property
    def state(self) -> tuple[tuple[int, ...], list[int]]:
        """The tuned α and limits."""
        limit = self.pool.tally.limit
        return self.pool.tuning.alphas, np.where(limit > 0, limit, ONE).tolist()

    def _pass(self) -> None:
        demand = self.demand
        if self.noise:
            odds = [self.dice.randint(100 - self.noise, 100 + self.noise) for _ in demand]
            demand = demand * np.array(odds) // 100
        spent = self._served(demand)
        tally, firm = self.pool.tally, self.pool.terms.rank >= 2
        self.pool.level = int(spent[firm].sum()) * ONE // CAPACITY
        self.at_ms += EVERY_MS
        for part in range(4):
            self.tier = next_tier(
                self.tier, self.pool.level, self.spec.tiers, self.at_ms + part * EVERY_MS // 4
            )
        requests = demand // 1000 * EVERY_MS // 10_000  # of ten tokens a second each
        ended = np.where(demand > 0, requests * (spent / np.maximum(demand, 1)), 0)
        tally.looked_spent[:] = spent * EVERY_MS // ONE
        tally.looked_ended[:] = ended.astype(np.int64)
        tally.looked_refused[:] = requests - tally.looked_ended

    def _served(self, demand: Ints) -> Ints:
        pool, spec_ = self.pool, tuned(self.spec, self.pool.tuning)
        terms = limited(pool.terms, pool.tally.limit)
        wanted = np.minimum(demand, self._quotas())
        weight = weights(terms, spec_.weights, pool.tally.burst, pool.tally.debt)
        action = actions_of(tuple(spec_.classes), self.tier.tier, terms.rank)
        carry = np.zeros_like(wanted)
        granted = grants(
            AVAILABLE, wanted, weight, terms, spec_, action, wanted > 0, carry, CAPACITY
        )
        return np.minimum(granted.grant, wanted)

    def _quotas(self) -> Ints:
        """What quotas let through on average, with the tuned limits."""
        rates = np.full(len(self.pool.terms.names), AVAILABLE, dtype=np.int64)
        for claim in self.spec.entitlements:
            place = self.pool.terms.index[claim.tenant]
            factor = int(self.pool.tally.limit[place]) or ONE
            for quota in claim.quotas:
                rates[place] = quota.tokens * 1000 // HOUR_S * factor // ONE
        return rates


DEMANDS = (0, 50, 300, 1_000, 2_000, 6_000)


def _claim(dice: random.Random, name: str) -> Entitlement:
    service_class = dice.choice(CLASSES)
    reserves = service_class not in ("spot", "preemptible")
    quota = Quota("hour", "UTC", dice.choice((1, 5, 20)) * 1_000_000, 0, False, False)
    return tenant(
        name,
        service_class,
        dice.choice((500, 1_000, 1_500)) if reserves else 0,
        borrow_cap=dice.choice((None, 200, 1_000, 3_000)),
        lend_cap=dice.choice((None, 300)),
        quotas=[quota] if dice.random() < 0.3 else (),
    )


def _spec(dice: random.Random) -> PoolSpec:
    claims: Sequence[Entitlement] = [_claim(dice, f"t{n}") for n in range(dice.randint(1, 6))]
    return spec(
        *claims,
        alpha=dice.choice((0.3, 0.8)),
        alphas={
            name: dice.choice((0.2, 0.5)) for name in ("spot", "elastic") if dice.random() < 0.4
        },
        zones=[zone_of("UTC")],
        tuning=TuningTerms(
            EVERY_MS,
            dice.choice((0, 5 * EVERY_MS)),
            dice.choice((0, ppm(0.2))),
            ppm(0.95),
            dice.choice((ONE, 3 * ONE)),
        ),
    )
