"""When a refused request would be admitted, if it asked again: its place in virtual time.

Exact while the lease stays as it is, for those who come when they were told: before it go those
who wait, as far as their deadlines let them, and those who were refused before it.
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
    for bucket in buckets:
        bucket.book(longest_ms, request.cost)
    return denial._replace(retry_ms=longest_ms)


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
