"""The peers: the library `limits`, a fixed window of 20 000 tenants, in memory and on Redis.

A fixed window is its cheapest strategy: its moving window keeps an entry for each token. A hit is
one call: it charges the estimate and never learns what was used. The second lane of each settles
too, by a hit whose cost is what was used less the estimate.
"""

from collections.abc import Sequence

from limits import RateLimitItemPerHour
from limits.storage import MemoryStorage, RedisStorage
from limits.strategies import FixedWindowRateLimiter

from bench.admission.orders import Figures, Order, figures, tenants, timed

LIMIT = RateLimitItemPerHour(10**12)  # nobody is refused, whatever the order


class Limits:
    """`limiter.hit(item, tenant, cost=estimate)`, and with `settles` the hit that corrects it."""

    def __init__(self, storage: MemoryStorage | RedisStorage, settles: bool) -> None:
        self._limiter = FixedWindowRateLimiter(storage)
        self._work = self._settled if settles else self._hit
        for tenant in tenants():
            self._limiter.hit(LIMIT, tenant)

    def turn(self, batch: Sequence[Order]) -> Figures:
        """Admit each of them, and settle it where this lane does."""
        return figures(timed(self._work, batch))

    def _hit(self, order: Order) -> None:
        self._limiter.hit(LIMIT, order.tenant, cost=order.estimate)

    def _settled(self, order: Order) -> None:
        self._hit(order)
        self._limiter.hit(LIMIT, order.tenant, cost=order.used - order.estimate)
