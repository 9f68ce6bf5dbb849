"""What a partition remembers of events: ids, ended attempts, and attempts that may say more.

Bounded: an hour of the log, or what 60 buckets hold, whichever is less. The rows it is stored in
are rewritten only where something changed.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

HOUR_MS = 3_600_000
BUCKETS = 60
BUCKET_MS = HOUR_MS // BUCKETS
MOST_IN_BUCKET = 16_384  # hashes; an event with an id leaves two
MOST_OPEN = 65_536  # attempts without a final usage
CHUNKS = 16  # of the open attempts, by hash


@dataclass(slots=True)
class Attempt:
    """An attempt whose usage is not final: what has been counted of it, in tokens."""

    uncached: int = 0
    cache_write: int = 0
    cached: int = 0
    out: int = 0
    wait_ms: int = 0
    input_told: bool = False  # the input is no estimate
    ended: bool = False
    kind: int = 0  # of the newest event that counted
    touched_ms: int = 0

    @property
    def total(self) -> int:
        """All of its tokens."""
        return self.uncached + self.cached + self.out


@dataclass(slots=True)
class Bucket:
    """Hashes that became known in one stretch of the log."""

    started_ms: int = 0
    hashes: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Memory:
    """Hashes that are known, and open attempts, the one that was heard of longest ago first."""

    buckets: list[Bucket] = field(default_factory=lambda: [Bucket() for _ in range(BUCKETS)])
    newest: int = 0  # the bucket that is being filled
    open: dict[int, Attempt] = field(default_factory=dict)
    forgotten: int = 0  # before their hour was over
    known: set[int] = field(default_factory=set)
    changed_buckets: set[int] = field(default_factory=set)
    changed_chunks: set[int] = field(default_factory=set)

    def remember(self, hashes: Iterable[int], now_ms: int) -> None:
        """These are known from now on."""
        bucket = self._bucket(now_ms)
        new = [hash for hash in hashes if hash not in self.known]
        self.known.update(new)
        bucket.hashes += new
        self.changed_buckets.add(self.newest)

    def keep(self, key: int, attempt: Attempt, now_ms: int) -> None:
        """The attempt may say more; it is the youngest now."""
        self.drop(key)
        attempt.touched_ms = now_ms
        self.open[key] = attempt
        self._note(key)
        if len(self.open) > MOST_OPEN:
            self.forgotten += self._drop_until(next(iter(self.open.values())).touched_ms)

    def drop(self, key: int) -> None:
        """The attempt's usage is final."""
        if self.open.pop(key, None) is not None:
            self._note(key)

    def age(self, now_ms: int) -> None:
        """Forget what is older than an hour."""
        if self.open:
            self._drop_until(now_ms - HOUR_MS)
        self._bucket(now_ms)

    def _bucket(self, now_ms: int) -> Bucket:
        """The bucket to fill; the next one, emptied, when this one is full or its time is over."""
        bucket = self.buckets[self.newest]
        if now_ms - bucket.started_ms < BUCKET_MS and len(bucket.hashes) < MOST_IN_BUCKET:
            return bucket
        self.newest = (self.newest + 1) % BUCKETS
        oldest = self.buckets[self.newest]
        if now_ms - oldest.started_ms < HOUR_MS:
            self.forgotten += len(oldest.hashes)
        self.known.difference_update(oldest.hashes)
        self.changed_buckets.add(self.newest)
        self.buckets[self.newest] = Bucket(now_ms)
        return self.buckets[self.newest]

    def _drop_until(self, touched_ms: int) -> int:
        old = []
        for key, attempt in self.open.items():
            if attempt.touched_ms > touched_ms:
                break
            old.append(key)
        for key in old:
            self.drop(key)
        return len(old)

    def _note(self, key: int) -> None:
        self.changed_chunks.add(key % CHUNKS)
