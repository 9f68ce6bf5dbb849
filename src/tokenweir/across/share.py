"""Share a quota between the pools that ask for it, by what they report (PROTOCOL Q1, Q2)."""

from dataclasses import dataclass, field
from typing import NamedTuple

from tokenweir.errors import BadRecord
from tokenweir.records.usage import PoolSpend, QuotaCeiling

# A pool that has not reported for so long does not take part in the sharing; what it was given
# stays given.
FRESH_MS = 15_000
# What comes later about a window changes nothing, since nothing of it can be given any more.
KEPT_MS = 600_000
MOST_TOKENS = 10**15


class Key(NamedTuple):
    """One window of one quota; `user` is empty for the tenant as a whole."""

    tenant: str
    user: str
    window_id: str


@dataclass(frozen=True, slots=True)
class Part:
    """What one pool said last, and its ceiling; charged tokens."""

    limit: int
    spent: int
    wanted: int
    given: int
    seen_ms: int


@dataclass(slots=True)
class Shared:
    """One window that is shared."""

    starts_ms: int
    ends_ms: int
    parts: dict[str, Part] = field(default_factory=dict)  # by pool


@dataclass(slots=True)
class Across:
    """All windows of one partition of the spend topic."""

    clock_ms: int = 0
    shared: dict[Key, Shared] = field(default_factory=dict)


def take(state: Across, spend: PoolSpend, append_ms: int) -> QuotaCeiling | None:
    """Take what a pool says of a window; its new ceiling, where that rises.

    Raises `BadRecord`, with nothing changed, for a record that cannot be.
    """
    _check(spend)
    state.clock_ms = max(state.clock_ms, append_ms)
    _forget(state)
    if spend.ends_ms + KEPT_MS < state.clock_ms:
        return None
    key = Key(spend.tenant, spend.user, spend.window_id)
    shared = state.shared.setdefault(key, Shared(spend.starts_ms, spend.ends_ms))
    before = shared.parts.get(spend.pool)
    # What it was told is known from itself too, whatever became of our own memory.
    given = max(before.given if before else 0, spend.ceiling)
    part = Part(spend.limit, spend.spent, spend.wanted, given, state.clock_ms)
    shared.parts[spend.pool] = part
    more = growth(shared, spend.pool, state.clock_ms)
    if more == 0:
        return None
    tokens = given + more
    shared.parts[spend.pool] = Part(part.limit, part.spent, part.wanted, tokens, part.seen_ms)
    return QuotaCeiling(
        spend.pool, *key, starts_ms=shared.starts_ms, ends_ms=shared.ends_ms, tokens=tokens
    )


def growth(shared: Shared, pool: str, now_ms: int) -> int:
    """By how much a pool's ceiling rises: what it lacks, or its share of what is left.

    Ceilings count as spent, whatever became of the pool. Where pools' specs differ, the smallest
    limit of those that report holds.
    """
    fresh = {name: part for name, part in shared.parts.items() if now_ms - part.seen_ms <= FRESH_MS}
    limit = min(part.limit for part in fresh.values())
    free = limit - sum(max(part.given, part.spent) for part in shared.parts.values())
    lacks = {name: max(part.spent + part.wanted - part.given, 0) for name, part in fresh.items()}
    total = sum(lacks.values())
    if total <= free:
        return lacks[pool]
    return max(free, 0) * lacks[pool] // total


def _forget(state: Across) -> None:
    over = [
        key for key, shared in state.shared.items() if shared.ends_ms + KEPT_MS < state.clock_ms
    ]
    for key in over:
        del state.shared[key]


def _check(spend: PoolSpend) -> None:
    for name in ("limit", "spent", "wanted", "ceiling"):
        value = getattr(spend, name)
        if not -MOST_TOKENS <= value <= MOST_TOKENS:
            raise BadRecord(f"{name} is {value}: {-MOST_TOKENS} to {MOST_TOKENS} is allowed")
    if not 0 <= spend.starts_ms < spend.ends_ms:
        raise BadRecord(f"ends_ms is {spend.ends_ms}: after starts_ms, {spend.starts_ms}")
    if not spend.pool or "/" in spend.pool:
        raise BadRecord(f"the pool's name {spend.pool!r} is empty or has a slash")
