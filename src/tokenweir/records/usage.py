"""What gateways report: rows in columns, and what else lies in the usage topic."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Status = Literal["part", "done", "cancelled", "refused", "expired"]
Flow = Literal["online", "batch"]


@dataclass(frozen=True, slots=True)
class Totals:
    """One row a (tenant, user) that was active.

    Every column has the length of `tenant`, or is empty when all of its values are 0. Counters
    are of this report; gauges are as they stand at the cut and absent rows mean 0 (R2).
    """

    names: Sequence[str]
    tenant: Sequence[int]
    user: Sequence[int]
    age_ms: Sequence[int]
    requests: Sequence[int]
    errors: Sequence[int]
    tokens_uncached: Sequence[int]
    tokens_cached: Sequence[int]
    tokens_out: Sequence[int]
    refused: Sequence[int]
    refused_tokens: Sequence[int]
    wait_ms: Sequence[int]
    in_flight: Sequence[int]
    sequences: Sequence[int]
    kv_bytes: Sequence[int]
    held_tokens: Sequence[int]
    queued: Sequence[int]
    queued_tokens: Sequence[int]


@dataclass(frozen=True, slots=True)
class UsageReport:
    """One flush of one gateway for one pool, at most one second of it.

    Topic tokenweir.usage.v1, key = pool.
    """

    pool: str
    gateway: str
    sequence: int
    applied: int
    closing: bool
    more: bool
    age_ms: int
    totals: Totals
    requests: bytes


@dataclass(frozen=True, slots=True)
class RequestsBlock:
    """Increments of requests, in columns of the length of `id` (an index or number column may be
    empty when all of its values are 0): the rows of one request share its id, and the
    increments of a report add up to its totals (T6).
    """

    names: Sequence[str]
    id: Sequence[str]
    attempt: Sequence[int]
    tenant: Sequence[int]
    user: Sequence[int]
    model: Sequence[int]
    operation: Sequence[int]
    provider_tier: Sequence[int]
    reason: Sequence[int]
    status: Sequence[Status]
    flow: Sequence[Flow]
    priority: Sequence[int]
    tokens_uncached: Sequence[int]
    tokens_cache_write: Sequence[int]
    tokens_cached: Sequence[int]
    tokens_out: Sequence[int]
    refused_tokens: Sequence[int]
    estimated: Sequence[bool]
    error: Sequence[bool]
    kv_bytes: Sequence[int]
    wait_ms: Sequence[int]
    duration_ms: Sequence[int]
    age_ms: Sequence[int]
    decision: Sequence[int]


@dataclass(frozen=True, slots=True)
class CapacityReport:
    """What the pool can do from now on. Topic tokenweir.usage.v1, key = pool."""

    pool: str
    source: str
    tokens_per_s: int | None
    kv_bytes: int | None
    sequences: int | None


@dataclass(frozen=True, slots=True)
class QuotaCeiling:
    """The most that a pool may have spent of a quota in one window (Q2).

    Topic tokenweir.usage.v1, key = pool.
    """

    pool: str
    tenant: str
    user: str
    window_id: str
    starts_ms: int
    ends_ms: int
    tokens: int


@dataclass(frozen=True, slots=True)
class PoolSpend:
    """What a pool has spent of a quota across pools in one window, sent when it lacks more (Q2).

    Topic tokenweir.spend.v1, key = tenant.
    """

    pool: str
    tenant: str
    user: str
    window_id: str
    starts_ms: int
    ends_ms: int
    limit: int
    spent: int
    wanted: int
    ceiling: int
    at_ms: int
