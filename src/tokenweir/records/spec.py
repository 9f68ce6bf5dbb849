"""A pool's spec, compiled: integers only (rates in milli-tokens/s, ratios in millionths)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

Mode = Literal["enforce", "shadow"]
ServiceClass = Literal["preemptible", "spot", "elastic", "guaranteed", "dedicated"]
OnSilence = Literal["floor", "refuse", "allow"]
Action = Literal["none", "limit", "floor_only", "refuse"]
BreakerRefuses = Literal["borrowers", "all"]
Cycle = Literal["minute", "hour", "day", "month"]

# Lowest first: the order in which classes are held back.
CLASSES: tuple[ServiceClass, ...] = get_args(ServiceClass)
RANK: Mapping[ServiceClass, int] = {name: rank for rank, name in enumerate(CLASSES)}
# The name under which all tenants that no spec knows are counted together.
UNKNOWN = "*"
# The tag that says where an entitlement's limit is raised; refusals tell it.
RAISE_LIMIT = "raise_limit_url"


@dataclass(frozen=True, slots=True)
class Capacity:
    """What the pool can do; null means not limited."""

    tokens_per_s: int
    kv_bytes: int | None
    sequences: int | None


@dataclass(frozen=True, slots=True)
class TokenWeights:
    """Charged tokens of one token of each kind, in millionths."""

    uncached: int
    cached: int
    out: int


@dataclass(frozen=True, slots=True)
class TierTerms:
    """Thresholds of the smoothed level in millionths."""

    soft: int
    hard: int
    circuit_break: int
    margin: int
    rise: int
    dwell_ms: int


@dataclass(frozen=True, slots=True)
class WeightTerms:
    """Factors of the weight, in millionths."""

    slo: int
    burst: int
    debt: int


@dataclass(frozen=True, slots=True)
class ClassTerms:
    """The terms of one class."""

    service_class: ServiceClass
    weight: int
    alpha: int | None
    share_cap: int | None
    starter: int
    longest_wait_ms: int
    on_silence: OnSilence
    soft_action: Action
    hard_action: Action


@dataclass(frozen=True, slots=True)
class BreakerTerms:
    """The emergency brake."""

    refuses: BreakerRefuses
    cool_off_ms: int
    longest_cool_off_ms: int
    probe: int
    error_rate: int


@dataclass(frozen=True, slots=True)
class ReclaimTerms:
    """How fast owners get back what others borrowed."""

    beta: int
    cool_down_ms: int
    resume_ms: int


@dataclass(frozen=True, slots=True)
class TuningTerms:
    """The slow loop."""

    every_ms: int
    cool_down_ms: int
    alpha_least: int
    alpha_most: int
    limits_most: int


@dataclass(frozen=True, slots=True)
class Zone:
    """A time zone as whole numbers, so that workers need no calendar of their own (A1)."""

    name: str
    from_ms: Sequence[int]
    offset_s: Sequence[int]


@dataclass(frozen=True, slots=True)
class ScheduledCapacity:
    """What the pool can do from a time of the week on."""

    zone: str
    minute: int
    tokens_per_s: int | None
    kv_bytes: int | None
    sequences: int | None


@dataclass(frozen=True, slots=True)
class Quota:
    """What may be spent in one cycle of the calendar."""

    cycle: Cycle
    zone: str
    tokens: int
    rollover: int
    lend: bool
    across: bool


@dataclass(frozen=True, slots=True)
class UserTerms:
    """The terms of one user or key of a tenant."""

    user: str
    weight: int
    quotas: Sequence[Quota]


@dataclass(frozen=True, slots=True)
class Entitlement:
    """A tenant's claim on the pool."""

    tenant: str
    service_class: ServiceClass
    suspended: bool
    baseline: int
    baseline_share: int | None
    borrow_cap: int | None
    lend_cap: int | None
    slo_ms: int
    on_silence: OnSilence | None
    tags: Mapping[str, str]
    sequences: int | None = None
    sequence_cap: int | None = None
    kv_bytes: int | None = None
    kv_cap: int | None = None
    quotas: Sequence[Quota] = ()
    user_quotas: Sequence[Quota] = ()
    users: Sequence[UserTerms] = ()


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """A pool's spec, compiled by `tokenweir apply`: integers only, decay factors computed once
    (A1).

    Topic tokenweir.usage.v1, key = pool.
    """

    pool: str
    version: int
    replaces: int
    mode: Mode
    interval_ms: int
    window_s: int
    grace_s: int
    lease_ms: int
    floor_ms: int
    longest_request_ms: int
    capacity: Capacity
    burst: int | None
    token_weights: TokenWeights
    ceiling: int
    pots: int
    tiers: TierTerms
    alpha: int
    ewma: int
    debt_gain: int
    weights: WeightTerms
    classes: Sequence[ClassTerms]
    unknown_class: ServiceClass
    entitlements: Sequence[Entitlement]
    breaker: BreakerTerms
    reclaim: ReclaimTerms
    tuning: TuningTerms
    zones: Sequence[Zone]
    schedule: Sequence[ScheduledCapacity]
    source: str
