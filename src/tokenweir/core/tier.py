"""The tier of a pool, by its smoothed water level, with hysteresis (DESIGN, decision 2)."""

from dataclasses import dataclass

from tokenweir.records.control import Tier
from tokenweir.records.spec import TierTerms

# Lowest first. The breaker alone leads above hard_degrade.
TIERS: tuple[Tier, ...] = ("normal", "soft_degrade", "hard_degrade")


@dataclass(frozen=True, slots=True)
class TierState:
    """The tier, and for soft and for hard how long the level has spoken for or against it."""

    tier: Tier = "normal"
    above: tuple[int, ...] = (0, 0)  # decisions in a row at or above the threshold, up to `rise`
    below_since_ms: tuple[int, ...] = (-1, -1)  # below threshold - margin; -1: it is not


def next_tier(state: TierState, level: int, terms: TierTerms, at_ms: int) -> TierState:
    """The tier after one more decision at `level` (millionths).

    Up to the highest tier at whose threshold the level has been for `rise` decisions; down past
    each tier below whose threshold, less the margin, it has been for `dwell_ms` of pool time.
    """
    thresholds = (terms.soft, terms.hard)
    above = tuple(
        min(count + 1, terms.rise) if level >= threshold else 0
        for count, threshold in zip(state.above, thresholds, strict=True)
    )
    below = tuple(
        _since(since_ms, at_ms) if level < threshold - terms.margin else -1
        for since_ms, threshold in zip(state.below_since_ms, thresholds, strict=True)
    )
    now = TIERS.index(state.tier)
    risen = max((place for place, count in enumerate(above, 1) if count >= terms.rise), default=0)
    ended = [place for place, since in enumerate(below, 1) if 0 <= since <= at_ms - terms.dwell_ms]
    if risen > now:
        return TierState(TIERS[risen], above, below)
    while now in ended:
        now -= 1
    return TierState(TIERS[now], above, below)


def _since(before_ms: int, at_ms: int) -> int:
    return at_ms if before_ms < 0 else before_ms
