"""When a refused request would be admitted, if it asked again: its place in virtual time.

Exact while the lease stays as it is, for those who come when they were told: before it go those
who wait, as far as their deadlines let them, and those who were refused before it. Where it will
not stay, no place is told beyond the moment at which it has changed.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tokenweir.gateway.bucket import Bucket
from tokenweir.gateway.queue import NOBODY, Crowd
from tokenweir.gateway.reasons import Denial
from tokenweir.gateway.request import Request

if TYPE_CHECKING:
    from tokenweir.gateway.pool import PoolGate

# Those that time mends at a known rate; when a sequence is free, nobody knows.
BOOKED = frozenset({"tokens", "floor_only", "breaker", "silent", "pot"})
TRICKLE_MS = 60_000  # a lease that pays one request for longer is what nobody asked for lately


def promised(gate: "PoolGate", request: Request, denial: Denial, now_ms: int) -> Denial:
    """The denial with the wait until the request's place, which is booked for it."""
    if denial.reason not in BOOKED or gate.stances[request.subject.rank].probe:
        return denial
    buckets = []
    longest_ms = 0
    for bucket, crowd in _sources(gate, request, denial):
        bucket.refill(now_ms)
        wait_ms = bucket.ready_ms(_ahead(bucket, crowd, now_ms))
        if wait_ms is None:
            return denial._replace(retry_ms=None)
        if bucket.bookings is not None:
            wait_ms = bucket.bookings.after(now_ms + wait_ms) - now_ms
        longest_ms = max(longest_ms, wait_ms)
        buckets.append(bucket)
    limit_ms = _limit(gate, request, denial, now_ms)
    if limit_ms is not None and limit_ms < longest_ms:
        return denial._replace(retry_ms=limit_ms)
    for bucket in buckets:
        bucket.book(longest_ms, request.cost)
    return denial._replace(retry_ms=longest_ms)


def _limit(gate: "PoolGate", request: Request, denial: Denial, now_ms: int) -> int | None:
    """When what it would be served from is another, in ms from now; None: not known to change."""
    if denial.reason == "pot":
        return _answered(gate, now_ms)
    leases = gate.leases
    life_ms = leases.expires_ms - leases.at_ms
    trickles = request.cost > request.subject.bucket.rate * TRICKLE_MS // 1000
    return life_ms if trickles else None


def _answered(gate: "PoolGate", now_ms: int) -> int | None:
    """How long until a lease, or the list of who is barred, has answered this refusal, in ms.

    A report tells of it within half an interval, and the next boundary's decision answers. It is
    obeyed as late as the newest was, and a quarter interval is for what differs.
    """
    pool_ms = gate.clock.at(now_ms)
    if pool_ms is None:
        return None
    interval_ms = gate.interval_ms
    reported_ms = pool_ms + interval_ms // 2
    boundary_ms = reported_ms - reported_ms % interval_ms + interval_ms
    return boundary_ms - pool_ms + gate.leases.late_ms + interval_ms // 4


def _sources(gate: "PoolGate", request: Request, denial: Denial) -> Iterator[tuple[Bucket, Crowd]]:
    """What it would be served from, and who waits for that."""
    subject = request.subject
    line = gate.lines.of(subject)
    crowd = line.crowd if line is not None else NOBODY
    if denial.reason != "pot":
        yield subject.bucket, crowd
        return
    yield gate.leases.pot, gate.lines.pot_crowd
    if subject.allowance is not None:
        yield subject.allowance, crowd


def _ahead(bucket: Bucket, crowd: Crowd, now_ms: int) -> int:
    booked = bucket.bookings.ahead(now_ms) if bucket.bookings is not None else 0
    # Who waits is served until the last deadline at most, and the last of them overdraws; the
    # others are refused then.
    served = bucket.level + bucket.rate * max(crowd.last_ms - now_ms, 0) // 1000
    if served <= 0:
        return booked
    return booked + min(crowd.cost, served + crowd.largest)
