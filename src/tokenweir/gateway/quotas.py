"""What quotas say of a request: all of its tenant's and of its user's must have room (Q1, Q3)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tokenweir.gateway.ceilings import Meter, Window
from tokenweir.gateway.reasons import Denial
from tokenweir.gateway.request import Request
from tokenweir.gateway.subject import Subject

if TYPE_CHECKING:
    from tokenweir.gateway.pool import PoolGate

FIRST = 6  # intervals until a quota over several pools has given this one something
HOPEFUL = 3  # intervals in which a ceiling that lacks tokens may rise: report, decide, deliver


def over_quota(gate: "PoolGate", request: Request, subject: Subject, pool_ms: int) -> Denial | None:
    """None, or why the request does not fit: of several windows the one that ends last."""
    tokens = -(-request.cost // 1000)
    worst: Denial | None = None
    for user, meter in _meters(gate, subject, request.user, pool_ms):
        windows = meter.at(pool_ms)
        if windows is None:
            return Denial("quota", gate.interval_ms, False, 0, user)
        for window in windows:
            if window.spent + tokens > window.tokens:
                denial = _denial(gate, window, user, pool_ms, meter.own)
                if worst is None or (denial.retry_ms or 0) > (worst.retry_ms or 0):
                    worst = denial
    return worst


def windows_of(gate: "PoolGate", subject: Subject, user: str, pool_ms: int) -> tuple[Window, ...]:
    """The windows that a request of this user is charged to."""
    meters = (meter.at(pool_ms) or () for _, meter in _meters(gate, subject, user, pool_ms))
    return tuple(window for windows in meters for window in windows)


def _denial(gate: "PoolGate", window: Window, user: str, pool_ms: int, own: bool) -> Denial:
    """The window's end, plus one interval for the next ceiling to arrive (Q3).

    Who has no ceiling of its own yet may have one by the next decision.

    A tenant's ceiling that lacks tokens for the first time may rise with the next decisions: who
    may wait does so. A user's would hold up the others in its tenant's line.
    """
    if not own:
        return Denial("quota", gate.interval_ms, False, window.left, user)
    window.short_ms = window.short_ms or pool_ms
    short_ms = pool_ms - window.short_ms
    hopeful = not user and short_ms < HOPEFUL * gate.interval_ms
    retry_ms = window.ends_ms - pool_ms + gate.interval_ms
    if window.tokens == 0 and short_ms < FIRST * gate.interval_ms:
        retry_ms = gate.interval_ms  # nothing was given yet, so nothing can be spent
    return Denial("quota", retry_ms, hopeful, window.left, user)


def _meters(
    gate: "PoolGate", subject: Subject, user: str, pool_ms: int
) -> Iterator[tuple[str, Meter]]:
    if subject.meter is not None:
        yield "", subject.meter
    users = subject.user_meters
    if users is None or not user:
        return
    meter = users.get(user)
    if meter is None and subject.everybody is not None:
        # What everybody may spend holds until the user has ceilings of its own.
        key = (subject.name, user)
        meter = users[user] = gate.meters.setdefault(key, Meter())
        meter.own = False
        meter.set(subject.everybody, pool_ms)
    if meter is not None:
        yield user, meter
