"""The state of one pool: everything that its next decision depends on."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tokenweir.core.alpha import UNTUNED, TuningState
from tokenweir.core.breaker import CLOSED, NOTHING_ENDED, BreakerState, Outcomes
from tokenweir.core.quota.quotas import Quotas, no_quotas
from tokenweir.core.tally import Tally, new_tally
from tokenweir.core.terms import Ints, Terms, terms_of
from tokenweir.core.tier import TierState
from tokenweir.core.window import Window, new_window
from tokenweir.records.control import BarredReason
from tokenweir.records.spec import Capacity, PoolSpec

# The columns of `Pool.totals`.
COUNTERS = (
    "requests",
    "errors",
    "tokens_uncached",
    "tokens_cached",
    "tokens_out",
    "charged",
    "refused",
    "refused_tokens",
    "wait_ms",
)
# The rows of `Gateway.gauges`.
GAUGES = ("in_flight", "sequences", "kv_bytes", "held_tokens", "queued", "queued_tokens")
# The rows of `Gateway.figures`.
DEMAND, SPENT, REFUSED = range(3)
FIRST_GAUGE = REFUSED + 1
GAUGED = {name: row for row, name in enumerate(GAUGES, FIRST_GAUGE)}
FILLING = FIRST_GAUGE + len(GAUGES)
HELD = FILLING + len(GAUGES)  # charged tokens that were held at the last decision
FIGURES = HELD + 1
NO_CAPACITY = Capacity(0, None, None)
NORMAL = TierState()


class Issue(NamedTuple):
    """What one decision gave to one gateway; the last column of its arrays is the pot."""

    at_ms: int
    expires_ms: int
    floor_expires_ms: int
    leased: Ints  # (2, tenants + 1): rates and floors, milli-tokens/s; the pot's floor is 0
    occupied: Ints  # (2, tenants + 1): the most sequences and MiB of KV cache

    @property
    def rates(self) -> Ints:
        """Of the tenants alone, shape (tenants,), milli-tokens/s."""
        return self.leased[0, :-1]

    @property
    def floors(self) -> Ints:
        """The part of each rate that outlives the lease; shape (tenants,)."""
        return self.leased[1, :-1]

    @property
    def pot(self) -> int:
        """The pot's rate, milli-tokens/s."""
        return int(self.leased[0, -1])


@dataclass(slots=True)
class Gateway:
    """What the pool knows of one gateway.

    `figures` has the shape (16, tenants) and is, once they are `gathered`, a part of all gateways'.
    """

    name: str
    tenants: int
    sequence: int = 0
    missing: int = 0  # reports that never came
    first_ms: int = 0
    seen_ms: int = 0
    applied_ms: int = 0
    parts: int = 1  # the most lease records it ever had
    reported: bool = False  # since the last decision
    closed: bool = False
    more: bool = False  # a report in several parts is not complete yet
    issued: list[Issue] = field(default_factory=list)  # since `applied_ms`, oldest first
    figures: Ints = field(init=False)

    def __post_init__(self) -> None:
        self.figures = np.zeros((FIGURES, self.tenants), dtype=np.int64)

    @property
    def demand(self) -> Ints:
        """Smoothed, milli-tokens/s."""
        return self._row(DEMAND)

    @property
    def spent(self) -> Ints:
        """Charged tokens since the last decision."""
        return self._row(SPENT)

    @property
    def refused(self) -> Ints:
        """Charged tokens since the last decision."""
        return self._row(REFUSED)

    @property
    def gauges(self) -> Ints:
        """Of the newest complete report, shape (6, tenants)."""
        return self.figures[FIRST_GAUGE:FILLING]

    @property
    def filling(self) -> Ints:
        """The same, of the report whose parts are coming in."""
        return self.figures[FILLING:HELD]

    def _row(self, row: int) -> Ints:
        figures: Ints = self.figures[row]
        return figures


@dataclass(slots=True)
class Pool:
    """One pool. `advance` and `fold` of `core.step` change it; nothing else does."""

    name: str
    clock_ms: int = 0  # the largest append time so far (T1)
    boundary_ms: int = 0  # of the last decision; 0: none yet
    spec: PoolSpec | None = None
    pending_spec: PoolSpec | None = None  # takes effect at the next boundary (T4)
    capacity: Capacity = NO_CAPACITY
    pending_capacity: Capacity | None = None
    pending_source: str = ""  # who said it
    scheduled_ms: int = 0  # up to when entries of the spec's schedule were taken up
    terms: Terms = field(default_factory=lambda: terms_of(None, NO_CAPACITY))
    tier: TierState = NORMAL
    level: int = 0  # of the firm use, smoothed, millionths
    total: int = 0  # the same of all use
    breaker: BreakerState = CLOSED
    outcomes: Outcomes = NOTHING_ENDED
    tuning: TuningState = UNTUNED
    barred: tuple[tuple[str, BarredReason], ...] = ()  # as published last (L8)
    notes: int = 0  # audit entries since the last decision, for their ids
    window: Window = field(default_factory=lambda: new_window(1, 60, 10))
    totals: Ints = field(default_factory=lambda: np.zeros((1, len(COUNTERS)), dtype=np.int64))
    tally: Tally = field(default_factory=lambda: new_tally(1))
    gateways: dict[str, Gateway] = field(default_factory=dict)
    quotas: Quotas = field(default_factory=no_quotas)
    gone: dict[str, tuple[int, int]] = field(default_factory=dict)  # name: last sequence, seen_ms


def new_pool(name: str) -> Pool:
    """A pool of which nothing is known yet."""
    return Pool(name)


def gathered(pool: Pool) -> Ints:
    """All gateways' figures in one array, (gateways, 16, tenants), in the order of their names.

    It is made anew only after gateways have come or gone, or their tenants have changed.
    """
    bases = [gateway.figures.base for gateway in pool.gateways.values()]
    shape = len(bases), FIGURES, len(pool.terms.names)
    whole = bases[0] if bases else None
    if whole is not None and whole.shape == shape and all(base is whole for base in bases):
        return whole
    pool.gateways = dict(sorted(pool.gateways.items()))
    whole = np.zeros(shape, dtype=np.int64)
    for row, gateway in zip(whole, pool.gateways.values(), strict=True):
        row[:] = gateway.figures
        gateway.figures = row
    return whole
