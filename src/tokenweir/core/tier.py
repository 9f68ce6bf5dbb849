"""The tier of a pool, by its smoothed water level, with hysteresis (DESIGN, decision 2)."""

from dataclasses import dataclass, replace

from tokenweir.records.control import Tier
from tokenweir.records.rows import LONG_AGO_MS
from tokenweir.records.spec import TierTerms

# Lowest first. The breaker alone leads above hard_degrade.
TIERS: tuple[Tier, ...] = ("normal", "soft_degrade", "hard_degrade")


@dataclass(frozen=True, slots=True)
class TierState:
    """The tier, and for soft and for hard how long the level has spoken for or against it."""

    tier: Tier = "normal"
    above: tuple[int, ...] = (0, 0)  # decisions in a row at or above the threshold, up to `rise`
    below_since_ms: tuple[int, ...] = (-1, -1)  # below threshold - margin; -1: it is not
    fell_ms: tuple[int, ...] = (LONG_AGO_MS, LONG_AGO_MS)  # when it was last left downwards


def next_tier(state: TierState, level: int, terms: TierTerms, at_ms: int) -> TierState:
    """The tier after one more decision at `level` (millionths).

    Up to the highest tier at whose threshold the level has been for `rise` decisions, and that was
    not left within the dwell; down past each tier below whose threshold, less the margin, it has
    been for `dwell_ms` of pool time, one dwell after the last fall. So whatever the level does
    around a threshold, the tier changes there at most once per dwell.
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
    counted = state
    if (above, below) != (state.above, state.below_since_ms):
        counted = replace(state, above=above, below_since_ms=below)
    return _risen(counted, terms, at_ms) or _fallen(counted, terms, at_ms)


def restarted(state: TierState, at_ms: int) -> TierState:
    """The tier when the breaker has closed: all tiers above it are left at `at_ms`.

    What speaks for going down further is counted from then on.
    """
    now = TIERS.index(state.tier)
    fell = tuple(at_ms if place > now else ms for place, ms in enumerate(state.fell_ms, 1))
    below = tuple(-1 if since_ms < 0 else at_ms for since_ms in state.below_since_ms)
    return replace(state, fell_ms=fell, below_since_ms=below)


def _risen(state: TierState, terms: TierTerms, at_ms: int) -> TierState | None:
    now = TIERS.index(state.tier)
    for place in range(len(TIERS) - 1, now, -1):
        held = state.above[place - 1] >= terms.rise
        if held and at_ms - state.fell_ms[place - 1] >= terms.dwell_ms:
            return replace(state, tier=TIERS[place])
    return None


def _fallen(state: TierState, terms: TierTerms, at_ms: int) -> TierState:
    was = now = TIERS.index(state.tier)
    if at_ms - max(state.fell_ms) < terms.dwell_ms:
        return state
    while now > 0 and 0 <= state.below_since_ms[now - 1] <= at_ms - terms.dwell_ms:
        now -= 1
    if now == was:
        return state
    fell = tuple(at_ms if now < place <= was else ms for place, ms in enumerate(state.fell_ms, 1))
    return replace(state, tier=TIERS[now], fell_ms=fell)


def _since(before_ms: int, at_ms: int) -> int:
    return at_ms if before_ms < 0 else before_ms
