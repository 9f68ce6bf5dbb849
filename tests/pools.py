"""Small specs and reports for tests: rates in tokens/s, ratios as fractions, times in ms."""

from collections.abc import Mapping, Sequence

import numpy as np

from tokenweir.core.pool import Pool, new_pool
from tokenweir.core.step import Decided, UsageRecord, advance, fold
from tokenweir.core.terms import Ints, Terms, terms_of
from tokenweir.records.spec import (
    CLASSES,
    Action,
    BreakerTerms,
    Capacity,
    ClassTerms,
    Entitlement,
    OnSilence,
    PoolSpec,
    Quota,
    ReclaimTerms,
    ScheduledCapacity,
    ServiceClass,
    TierTerms,
    TokenWeights,
    TuningTerms,
    UserTerms,
    WeightTerms,
    Zone,
)
from tokenweir.records.usage import Totals, UsageReport

ONE = 1_000_000
CLASS_WEIGHTS = {"dedicated": 1000, "guaranteed": 500, "elastic": 100, "spot": 1}
STARTERS = {"dedicated": 1, "guaranteed": 1, "elastic": 0.5, "spot": 0.2, "preemptible": 0.1}
SOFT: Mapping[str, Action] = {"spot": "limit", "preemptible": "limit"}
HARD: Mapping[str, Action] = {"spot": "refuse", "preemptible": "refuse", "elastic": "floor_only"}


def ppm(fraction: float) -> int:
    return round(fraction * ONE)


def tenant(
    name: str,
    service_class: ServiceClass,
    baseline: float = 0,
    *,
    borrow_cap: float | None = None,
    lend_cap: float | None = None,
    slo_s: float = 1.0,
    suspended: bool = False,
    share: float | None = None,
    sequences: int | None = None,
    sequence_cap: int | None = None,
    kv_bytes: int | None = None,
    kv_cap: int | None = None,
    quotas: Sequence[Quota] = (),
    user_quotas: Sequence[Quota] = (),
    users: Sequence[UserTerms] = (),
) -> Entitlement:
    return Entitlement(
        tenant=name,
        service_class=service_class,
        suspended=suspended,
        baseline=int(baseline * 1000),
        baseline_share=None if share is None else ppm(share),
        borrow_cap=None if borrow_cap is None else int(borrow_cap * 1000),
        lend_cap=None if lend_cap is None else int(lend_cap * 1000),
        slo_ms=int(slo_s * 1000),
        on_silence=None,
        tags={},
        sequences=sequences,
        sequence_cap=sequence_cap,
        kv_bytes=kv_bytes,
        kv_cap=kv_cap,
        quotas=quotas,
        user_quotas=user_quotas,
        users=users,
    )


def class_terms(
    name: ServiceClass, share_caps: Mapping[str, float], alphas: Mapping[str, float]
) -> ClassTerms:
    floor: OnSilence = "refuse" if name in ("spot", "preemptible") else "floor"
    return ClassTerms(
        service_class=name,
        weight=ppm(CLASS_WEIGHTS.get(name, 0.1)),
        alpha=ppm(alphas[name]) if name in alphas else None,
        share_cap=ppm(share_caps[name]) if name in share_caps else None,
        starter=ppm(STARTERS[name]),
        longest_wait_ms=3000 if name in ("dedicated", "guaranteed") else 0,
        on_silence=floor,
        soft_action=SOFT.get(name, "none"),
        hard_action=HARD.get(name, "none"),
    )


def spec(
    *tenants: Entitlement,
    capacity: float = 10_000,
    version: int = 1,
    replaces: int | None = None,
    alpha: float = 0.8,
    interval_ms: int = 1000,
    window_s: int = 60,
    grace_s: int = 10,
    pots: float = 0.05,
    ceiling: float = 0.95,
    unknown: ServiceClass = "spot",
    sequences: int | None = None,
    kv_bytes: int | None = None,
    share_caps: Mapping[str, float] | None = None,
    alphas: Mapping[str, float] | None = None,
    lease_ms: int = 15_000,
    floor_ms: int = 600_000,
    pool: str = "chat",
    breaker: BreakerTerms | None = None,
    reclaim: ReclaimTerms | None = None,
    tuning: TuningTerms | None = None,
    zones: Sequence[Zone] = (),
    schedule: Sequence[ScheduledCapacity] = (),
) -> PoolSpec:
    """A pool of 10 000 tokens/s unless told otherwise, with DESIGN's defaults."""
    return PoolSpec(
        pool=pool,
        version=version,
        replaces=version - 1 if replaces is None else replaces,
        mode="enforce",
        interval_ms=interval_ms,
        window_s=window_s,
        grace_s=grace_s,
        lease_ms=lease_ms,
        floor_ms=floor_ms,
        longest_request_ms=600_000,
        capacity=Capacity(int(capacity * 1000), kv_bytes, sequences),
        burst=None,
        token_weights=TokenWeights(ONE, ONE, ONE),
        ceiling=ppm(ceiling),
        pots=ppm(pots),
        tiers=TierTerms(ppm(0.7), ppm(0.9), ONE, ppm(0.05), 2, 10_000),
        alpha=ppm(alpha),
        ewma=ppm(0.3),
        debt_gain=ppm(0.1),
        weights=WeightTerms(ppm(0.131), ppm(0.1), ppm(4)),
        classes=[class_terms(name, share_caps or {}, alphas or {}) for name in CLASSES],
        unknown_class=unknown,
        entitlements=sorted(tenants, key=lambda claim: claim.tenant),
        breaker=breaker or BreakerTerms("borrowers", 10_000, 300_000, ppm(0.05), ppm(0.1)),
        reclaim=reclaim or ReclaimTerms(ppm(0.3), 5_000, 60_000),
        tuning=tuning or TuningTerms(0, 300_000, 0, ppm(0.95), ONE),
        zones=zones,
        schedule=schedule,
        source="",
    )


def report(
    gateway: str,
    sequence: int,
    out: Mapping[str, int] | None = None,
    *,
    refused: Mapping[str, int] | None = None,
    queued: Mapping[str, int] | None = None,
    sequences: Mapping[str, int] | None = None,
    applied: int = 0,
    age_ms: int = 0,
    row_age_ms: int = 0,
    closing: bool = False,
    more: bool = False,
    pool: str = "chat",
) -> UsageReport:
    """A report of output tokens, refused and queued tokens, and sequences by tenant."""
    parts = [dict(part or {}) for part in (out, refused, queued, sequences)]
    names = sorted(set().union(*parts))
    columns: list[Sequence[int]] = [[part.get(name, 0) for name in names] for part in parts]
    zero: Sequence[int] = []
    totals = Totals(
        names=names,
        tenant=list(range(len(names))),
        user=list(range(len(names))),
        age_ms=[row_age_ms] * len(names),
        requests=[1 if value else 0 for value in columns[0]],
        errors=zero,
        tokens_uncached=zero,
        tokens_cached=zero,
        tokens_out=columns[0],
        refused=[1 if value else 0 for value in columns[1]],
        refused_tokens=columns[1],
        wait_ms=zero,
        in_flight=zero,
        sequences=columns[3],
        kv_bytes=zero,
        held_tokens=zero,
        queued=[1 if value else 0 for value in columns[2]],
        queued_tokens=columns[2],
    )
    return UsageReport(pool, gateway, sequence, applied, closing, more, age_ms, totals, b"")


# A whole number of seconds and of minutes: boundaries are easy to read in tests.
START = 1_800_000_000_000


def pool_with(rules: PoolSpec, at_ms: int = START) -> Pool:
    """A pool in which the spec is in force from its first boundary, `at_ms`."""
    pool = new_pool(rules.pool)
    advance(pool, at_ms - 500)
    fold(pool, rules, at_ms - 500)
    return pool


def step(pool: Pool, record: UsageRecord, at_ms: int) -> Decided | None:
    """One message of the log: time moves, which may decide; then the record is folded."""
    decided = advance(pool, at_ms)
    fold(pool, record, at_ms)
    return decided


def terms(*tenants: Entitlement, capacity: float = 10_000) -> Terms:
    """The terms of these tenants and of the unknown one, `*`, which comes first."""
    rules = spec(*tenants, capacity=capacity)
    return terms_of(rules, rules.capacity)


def ints(*values: int) -> Ints:
    return np.array(values, dtype=np.int64)
