"""The rows that queries answer with. Rates are milli-tokens/s, ratios millionths."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class TenantUsage:
    """One tenant's use. A request may take several attempts; `admitted` and `refused` are ends of
    attempts and add up to `attempts`. Input includes what a cache served.
    """

    tenant: str
    requests: int
    attempts: int
    admitted: int
    refused: int
    errors: int
    estimated: int
    input_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    output_tokens: int
    refused_tokens: int


@dataclass(frozen=True, slots=True)
class HourUsage:
    """One hour of the week, summed over the weeks asked for: day 1 is Monday, hour 0 midnight."""

    day: int
    hour: int
    tenants: int
    requests: int
    refused: int
    input_tokens: int
    output_tokens: int
    refused_tokens: int


@dataclass(frozen=True, slots=True)
class Refusals:
    """How often one tenant was refused for one reason; the tokens are charged tokens."""

    tenant: str
    reason: str
    refused: int
    refused_tokens: int


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision of a pool."""

    at: datetime
    id: str
    spec_version: int
    mode: str
    tier: str
    breaker: str
    level: int
    level_now: int
    lent: int
    alpha: int
    capacity: int
    granted: int
    used: int
    budget: int


@dataclass(frozen=True, slots=True)
class TimeInTier:
    """How long a pool stood in a tier."""

    tier: str
    ms: int


@dataclass(frozen=True, slots=True)
class Figures:
    """What one decision was taken on, for one tenant."""

    tenant: str
    service_class: str
    baseline: int
    demand: int
    rate: int
    used: int
    weight: int
    floor: int
    grant: int
    leased: int
    debt: int
    refused: int
    refused_tokens: int
    queued: int
    spent: int


@dataclass(frozen=True, slots=True)
class Change:
    """One audit entry."""

    at: datetime
    kind: str
    subject: str
    lost: Sequence[str]
    gained: Sequence[str]
    amount: int
    unit: str
    before: str
    after: str
    why: str


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the history holds one partition: everything below `next_offset`."""

    partition: int
    next_offset: int
