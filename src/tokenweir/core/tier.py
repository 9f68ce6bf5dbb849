"""The tier of a pool, by its smoothed water level, with hysteresis (DESIGN, decision 2)."""

from dataclasses import dataclass

from tokenweir.records.control import Tier
from tokenweir.records.spec import TierTerms

# Lowest first. The breaker alone leads above hard_degrade.
TIERS: tuple[Tier, ...] = ("normal", "soft_degrade", "hard_degrade")


@dataclass(frozen=True, slots=True)
class TierState:
    """The tier, and how long the level has spoken for another one."""

    tier: Tier = "normal"
    rising: int = 0  # decisions in a row at or above the next threshold
    low_since_ms: int = -1  # pool time since when the level is below threshold - margin; -1: not


def next_tier(state: TierState, level: int, terms: TierTerms, at_ms: int) -> TierState:
    """The tier after one more decision at `level` (millionths).

    Up when the level has been at a higher tier's threshold for `rise` decisions; down when it has
    been below the tier's threshold less the margin for `dwell_ms` of pool time.
    """
    now = TIERS.index(state.tier)
    thresholds = (0, terms.soft, terms.hard)
    reached = max(place for place in range(3) if level >= thresholds[place])
    if reached > now:
        if state.rising + 1 >= terms.rise:
            return TierState(TIERS[reached])
        return TierState(state.tier, state.rising + 1)
    if now == 0 or level >= thresholds[now] - terms.margin:
        return TierState(state.tier)
    since = at_ms if state.low_since_ms < 0 else state.low_since_ms
    if at_ms - since < terms.dwell_ms:
        return TierState(state.tier, 0, since)
    held = [place for place in range(now) if level >= thresholds[place] - terms.margin]
    return TierState(TIERS[max(held, default=0)])
