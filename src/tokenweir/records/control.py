"""What gateways obey: a pool's decision, each gateway's leases, who is barred, who is entitled."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tokenweir.records.spec import (
    Action,
    BreakerRefuses,
    Mode,
    OnSilence,
    ServiceClass,
    TokenWeights,
)

Tier = Literal["normal", "soft_degrade", "hard_degrade", "circuit_break"]
Breaker = Literal["closed", "open", "half_open"]
BarredReason = Literal["suspended", "revoked", "no_grant", "quota"]


@dataclass(frozen=True, slots=True)
class ClassState:
    """What holds for one class now."""

    service_class: ServiceClass
    action: Action
    starter: int
    longest_wait_ms: int
    on_silence: OnSilence


@dataclass(frozen=True, slots=True)
class ControlDecision:
    """A pool's decision. Topic tokenweir.control.v1, key = pool."""

    pool: str
    at_ms: int
    id: str
    spec_version: int
    mode: Mode
    interval_ms: int
    longest_request_ms: int
    tier: Tier
    breaker: Breaker
    breaker_refuses: BreakerRefuses
    probe_rate: int
    level: int
    level_now: int
    lent: int
    alpha: int
    capacity: int
    granted: int
    priority_threshold: ServiceClass
    parts: int
    token_weights: TokenWeights
    classes: Sequence[ClassState]
    unknown_class: ServiceClass


@dataclass(frozen=True, slots=True)
class GatewayLeases:
    """All leases of one gateway in one pool, whole (L9).

    Topic tokenweir.control.v1, key = pool/gateway/part. Lease columns have the same length; an
    absent tenant has no lease.
    """

    pool: str
    gateway: str
    part: int
    parts: int
    at_ms: int
    expires_ms: int
    floor_expires_ms: int
    pot_rate: int
    pot_burst: int
    tenant: Sequence[str]
    rate: Sequence[int]
    burst: Sequence[int]
    floor: Sequence[int]
    sequences: Sequence[int]
    kv_bytes: Sequence[int]
    ceiling_tenant: Sequence[str]
    ceiling_user: Sequence[str]
    ceiling_window_id: Sequence[str]
    ceiling_starts_ms: Sequence[int]
    ceiling_ends_ms: Sequence[int]
    ceiling_tokens: Sequence[int]
    pot_sequences: int = -1
    pot_kv_bytes: int = -1


@dataclass(frozen=True, slots=True)
class Barred:
    """Who may not use starter pots, whole, published when it changes (L8).

    Topic tokenweir.control.v1, key = pool/barred.
    """

    pool: str
    at_ms: int
    tenant: Sequence[str]
    reason: Sequence[BarredReason]
    until_ms: Sequence[int]


@dataclass(frozen=True, slots=True)
class Roster:
    """Who is entitled, whole, published when the spec changes: a gateway needs the class of a
    tenant that it has no lease for (L8).

    Topic tokenweir.control.v1, key = pool/roster.
    """

    pool: str
    spec_version: int
    tenant: Sequence[str]
    service_class: Sequence[ServiceClass]
    on_silence: Sequence[OnSilence | None]
    raise_limit: Sequence[str] = ()
    user_tenant: Sequence[str] = ()
    user: Sequence[str] = ()
    user_weight: Sequence[int] = ()
