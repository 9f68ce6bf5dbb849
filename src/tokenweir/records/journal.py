"""What happened, for history and review; and what could not be used."""

from collections.abc import Sequence
from dataclasses import dataclass

from tokenweir.records.control import ControlDecision
from tokenweir.records.spec import ServiceClass


@dataclass(frozen=True, slots=True)
class TenantFigures:
    """Rates are in milli-tokens/s."""

    tenant: Sequence[str]
    service_class: Sequence[ServiceClass]
    baseline: Sequence[int]
    demand: Sequence[int]
    rate: Sequence[int]
    used: Sequence[int]
    weight: Sequence[int]
    floor: Sequence[int]
    grant: Sequence[int]
    leased: Sequence[int]
    debt: Sequence[int]
    refused: Sequence[int]
    refused_tokens: Sequence[int]
    queued: Sequence[int]
    spent: Sequence[int]
    borrowed: Sequence[int] = ()
    sequences: Sequence[int] = ()
    kv_bytes: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class GatewayFigures:
    """Columns of the same length."""

    gateway: Sequence[str]
    sequence: Sequence[int]
    applied: Sequence[int]
    seen_ms: Sequence[int]
    leased: Sequence[int]
    missing: Sequence[int]


@dataclass(frozen=True, slots=True)
class QuotaFigures:
    """Windows of quotas that are in use: columns of the same length."""

    tenant: Sequence[str] = ()
    user: Sequence[str] = ()
    window_id: Sequence[str] = ()
    tokens: Sequence[int] = ()
    spent: Sequence[int] = ()
    given: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class DecisionEntry:
    """A decision and the figures that it was taken on.

    Tenant columns have the same length; idle tenants are left out.
    """

    decision: ControlDecision
    tenants: TenantFigures
    gateways: GatewayFigures
    used: int
    budget: int
    total: int = 0
    quotas: QuotaFigures = QuotaFigures()


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A change that took from somebody, or that somebody asked for."""

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
class SnapshotChunk:
    """Part of the pool's whole state at a boundary (S3). The last chunk ends it."""

    next_offset: int
    chunk: int
    last: bool
    arithmetic: int
    keys: Sequence[str]
    rows: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class Break:
    """Replay does not cross this (S5)."""

    why: str
    next_offset: int
    arithmetic: int


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """What happened, for history and review. Topic tokenweir.journal.v1, key = pool."""

    pool: str
    at_ms: int
    id: str
    body: DecisionEntry | AuditEntry | SnapshotChunk | Break


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that could not be used. Topic tokenweir.dead-letter.v1, key = the record's key."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    reason: str
    reader: str
