"""A pool's spec, compiled: integers only (rates in milli-tokens/s, ratios in millionths)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

Mode = Literal["enforce", "shadow"]
ServiceClass = Literal["preemptible", "spot", "elastic", "guaranteed", "dedicated"]
OnSilence = Literal["floor", "refuse", "allow"]
Action = Literal["none", "limit", "floor_only", "refuse"]

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
    source: str
