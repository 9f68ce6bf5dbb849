"""Fit tenants' limits to what is seen: one factor a tenant on its quotas and its borrow cap.

    many refusals, long waits or use above 90 % of the limit   x 1.2, up to `limits_most`
    use below 20 % of it                                       x 0.9, down to `least`

Each change is on trial until the next look (DESIGN, decision 10). A raise has helped when what
asked for it has fallen, a cut when nothing asks for more. Else it is undone, and not tried again
before the figure that asked for it has moved by a fifth: under constant demand all settle.
"""

from dataclasses import dataclass

import numpy as np

from tokenweir.core import ONE
from tokenweir.core.terms import Bools, Ints

# Parts of what ended or was refused, and of the limit, in millionths.
MANY_REFUSALS, HIGH_USE, LOW_USE = 50_000, 900_000, 200_000
LEAST = 500_000
MOST = 1000 * ONE
# A figure has fallen when it is at most this part of what it was, in hundredths.
FALLEN = 95
MOVED = 5  # by one in so many


@dataclass(frozen=True, slots=True)
class Limits:
    """The factors and their trials, as `Tally` keeps them; arrays of shape (tenants,)."""

    limit: Ints
    limit_was: Ints
    limit_ms: Ints
    limit_asked: Ints
    raised_at: Ints
    lowered_at: Ints


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look sees of each tenant since the last one; arrays of shape (tenants,)."""

    refused: Ints  # part of its requests, millionths
    waited: Ints  # mean wait, as millionths of its SLO target; at most `MOST`
    used: Ints  # of its limit, millionths; at most `MOST`
    rate: Ints  # milli-tokens/s
    limited: Bools  # it has a limit to tune, and asked for something


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far the factors go: `least` has shape (tenants,), millionths."""

    least: Ints
    most: int
    cool_down_ms: int


def next_limits(now: Limits, seen: Looked, bounds: Bounds, at_ms: int) -> Limits:
    """The factors after one look: trials end, and what has cooled down may begin one."""
    limit = np.where(now.limit > 0, now.limit, ONE)
    asked = pressure(seen)
    on_trial = now.limit_was > 0
    raised = on_trial & (limit > now.limit_was)
    failed = np.where(
        raised, asked * 100 > now.limit_asked * FALLEN, on_trial & (asked >= ONE) & seen.limited
    )
    settled = Limits(
        limit=np.where(failed, now.limit_was, limit),
        limit_was=np.zeros_like(limit),
        limit_ms=np.where(failed, at_ms, now.limit_ms),
        limit_asked=np.zeros_like(limit),
        raised_at=np.where(raised, np.where(failed, now.limit_asked, 0), now.raised_at),
        lowered_at=np.where(failed & ~raised, now.limit_asked, now.lowered_at),
    )
    return _tried(settled, seen, asked, bounds, failed, at_ms)


def pressure(seen: Looked) -> Ints:
    """What asks for more, the strongest of three; from one (in millionths) on it is heard."""
    refused = seen.refused * ONE // MANY_REFUSALS
    return np.maximum(np.maximum(refused, seen.waited), seen.used * ONE // HIGH_USE)


def _tried(
    now: Limits, seen: Looked, asked: Ints, bounds: Bounds, failed: Bools, at_ms: int
) -> Limits:
    rested = seen.limited & ~failed & (at_ms - now.limit_ms >= bounds.cool_down_ms)
    up = rested & (asked >= ONE) & moved(asked, now.raised_at) & (now.limit < bounds.most)
    slack = rested & (asked < ONE) & (seen.used < LOW_USE) & moved(seen.rate, now.lowered_at)
    down = slack & (now.limit > bounds.least)
    higher = np.minimum(now.limit * 12 // 10, bounds.most)
    lower = np.maximum(now.limit * 9 // 10, bounds.least)
    changed = up | down
    return Limits(
        limit=np.where(up, higher, np.where(down, lower, now.limit)),
        limit_was=np.where(changed, now.limit, 0),
        limit_ms=np.where(changed, at_ms, now.limit_ms),
        limit_asked=np.where(up, asked, np.where(down, np.maximum(seen.rate, 1), 0)),
        raised_at=now.raised_at,
        lowered_at=now.lowered_at,
    )


def moved(figure: Ints, failed_at: Ints) -> Bools:
    """Whether a figure has moved by a fifth from where a change failed; 0: none did."""
    far: Bools = np.logical_or(failed_at == 0, np.abs(figure - failed_at) * MOVED >= failed_at)
    return far
