"""A pool's state as rows: what tables and snapshots hold."""

from collections.abc import Sequence
from dataclasses import dataclass

from tokenweir.records.control import BarredReason, Breaker, Tier
from tokenweir.records.spec import Capacity

# Long before any log: stands for "never".
LONG_AGO_MS = -(10**12)


@dataclass(frozen=True, slots=True)
class PoolRow:
    """The state of one pool, all but its tenants' blocks and its gateways."""

    pool: str
    clock_ms: int
    boundary_ms: int
    spec: bytes | None
    pending_spec: bytes | None
    capacity: Capacity
    pending_capacity: Capacity | None
    tier: Tier
    above: Sequence[int]
    below_since_ms: Sequence[int]
    level: int
    barred: Sequence[str]
    barred_reason: Sequence[BarredReason]
    notes: int
    newest_s: int
    seconds: int
    flows: bytes
    gateways: Sequence[str]
    gone: Sequence[str]
    gone_sequence: Sequence[int]
    gone_seen_ms: Sequence[int]
    fell_ms: Sequence[int] = ()
    total: int = 0
    breaker: Breaker = "closed"
    breaker_since_ms: int = LONG_AGO_MS
    breaker_above: int = 0
    cool_off_ms: int = 0
    ended_rate: int = 0
    failed_rate: int = 0
    tuning: Sequence[int] = ()
    pending_source: str = ""
    scheduled_ms: int = 0


@dataclass(frozen=True, slots=True)
class GatewayRow:
    """What a pool knows of one gateway; arrays hold only the tenants listed."""

    gateway: str
    sequence: int
    missing: int
    first_ms: int
    seen_ms: int
    applied_ms: int
    parts: int
    reported: bool
    closed: bool
    more: bool
    tenant: Sequence[str]
    figures: bytes
    issued_ms: Sequence[int]
    expires_ms: Sequence[int]
    floor_expires_ms: Sequence[int]
    pot: Sequence[int]
    issued: bytes
    issued_columns: int = 2
    pot_occupied: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class BlockRow:
    """A block of up to 256 tenants of one pool, in columns."""

    tenant: Sequence[str]
    columns: int
    values: bytes


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """Up to 256 quota accounts of one pool that hold something, and each gateway's part."""

    tenant: Sequence[str]
    user: Sequence[str]
    cycle: Sequence[str]
    columns: int
    values: bytes
    gateway: Sequence[str]
    told_ms: Sequence[int]
    figures: int
    shares: bytes


@dataclass(frozen=True, slots=True)
class SharedRow:
    """Windows of quotas across pools, in columns: a row for each window and pool."""

    clock_ms: int
    tenant: Sequence[str]
    user: Sequence[str]
    window_id: Sequence[str]
    starts_ms: Sequence[int]
    ends_ms: Sequence[int]
    pool: Sequence[str]
    limit: Sequence[int]
    spent: Sequence[int]
    wanted: Sequence[int]
    given: Sequence[int]
    seen_ms: Sequence[int]
