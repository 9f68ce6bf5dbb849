"""What a review keeps of each decision: few figures, since it holds hours of them at once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tokenweir.records.journal import DecisionEntry, TenantFigures

Ints = NDArray[np.int64]
# The rows of `Frame.values`: rates in milli-tokens/s, `debt` in millionths of the baseline, tokens
# and requests since the decision before.
FIGURES = (
    "baseline",
    "demand",
    "floor",
    "borrowed",
    "grant",
    "debt",
    "spent",
    "refused",
    "refused_tokens",
)
PLACE = {name: place for place, name in enumerate(FIGURES)}


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """One decision. Rates are milli-tokens/s, ratios millionths, `used` and `budget` tokens."""

    at_ms: int
    interval_ms: int
    tier: str
    breaker: str
    level: int
    lent: int
    alpha: int
    capacity: int
    granted: int
    used: int
    budget: int
    names: tuple[str, ...]  # of tenants
    classes: tuple[str, ...]
    values: Ints  # (figures, tenants)

    def of(self, figure: str) -> Ints:
        """One figure of all tenants, in the order of `names`."""
        row: Ints = self.values[PLACE[figure]]
        return row


def frame_of(entry: DecisionEntry) -> Frame:
    """What is kept of a decision."""
    now, tenants = entry.decision, entry.tenants
    return Frame(
        at_ms=now.at_ms,
        interval_ms=now.interval_ms,
        tier=now.tier,
        breaker=now.breaker,
        level=now.level,
        lent=now.lent,
        alpha=now.alpha,
        capacity=now.capacity,
        granted=now.granted,
        used=entry.used,
        budget=entry.budget,
        names=tuple(tenants.tenant),
        classes=tuple(tenants.service_class),
        values=np.array([_column(tenants, name) for name in FIGURES], dtype=np.int64),
    )


def thinned(entry: DecisionEntry) -> DecisionEntry:
    """A decision without its version, which says nothing of what was decided."""
    return replace(entry, decision=replace(entry.decision, spec_version=0))


def lasting(frames: Sequence[Frame]) -> Sequence[int]:
    """How long each decision held, ms; the last one is taken for one interval."""
    nexts = [frame.at_ms for frame in frames[1:]]
    return [
        *(until - frame.at_ms for frame, until in zip(frames, nexts, strict=False)),
        *(frame.interval_ms for frame in frames[-1:]),
    ]


def _column(tenants: TenantFigures, name: str) -> Sequence[int]:
    # What an older version did not record is 0.
    return getattr(tenants, name) or [0] * len(tenants.tenant)
