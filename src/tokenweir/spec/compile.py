"""From a spec as people write it to the record that the log carries: integers only."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

from tokenweir.records.spec import (
    Capacity,
    ClassTerms,
    Entitlement,
    PoolSpec,
    TierTerms,
    TokenWeights,
    WeightTerms,
)
from tokenweir.spec.classes import default_terms
from tokenweir.spec.model import Baseline, ClassFields, Pool, Tenant

MILLION = 1_000_000


def compile_spec(pool: Pool, version: int, replaces: int, source: str = "") -> PoolSpec:
    """The record of `pool`: the same for the same arguments, byte for byte.

    Tenants stand in the order of their names, classes lowest first. `source` is the YAML.
    """
    return PoolSpec(
        pool=pool.pool,
        version=version,
        replaces=replaces,
        mode=pool.mode,
        interval_ms=pool.interval,
        window_s=pool.window,
        grace_s=pool.grace,
        lease_ms=pool.lease,
        floor_ms=pool.silent_floor,
        longest_request_ms=pool.longest_request,
        capacity=Capacity(
            pool.capacity.tokens_per_s, pool.capacity.kv_bytes, pool.capacity.sequences
        ),
        burst=pool.burst,
        token_weights=TokenWeights(
            pool.token_weights.uncached, pool.token_weights.cached, pool.token_weights.out
        ),
        ceiling=pool.ceiling,
        pots=pool.pots,
        tiers=_tiers(pool),
        alpha=pool.alpha,
        ewma=per_interval(pool.smoothing.rate, pool.interval),
        debt_gain=per_interval(pool.smoothing.debt, pool.interval),
        weights=WeightTerms(pool.weights.slo, pool.weights.burst, pool.weights.debt),
        classes=terms_of(pool),
        unknown_class=pool.unknown.service_class,
        entitlements=tuple(_entitlement(pool, name) for name in sorted(pool.tenants)),
        source=source,
    )


def per_interval(per_second: int, interval_ms: int) -> int:
    """The weight of the newest interval, 1 − (1 − λ)^(interval / 1 s), in millionths (A1).

    In decimal arithmetic, which gives the same digits on every machine.
    """
    kept = (1 - Decimal(per_second) / MILLION) ** (Decimal(interval_ms) / 1000)
    return max(1, int(((1 - kept) * MILLION).to_integral_value()))


def terms_of(pool: Pool) -> tuple[ClassTerms, ...]:
    """The terms of the five classes, lowest first: what the spec says, else the defaults."""
    return tuple(
        _terms(default, getattr(pool.classes, default.service_class))
        for default in default_terms(pool.interval)
    )


def baseline_of(pool: Pool, tenant: Tenant) -> Baseline:
    """What is reserved for a tenant; its rate is also known where the spec gives a share."""
    share = tenant.baseline.share
    if share is None:
        return tenant.baseline
    return Baseline(pool.capacity.tokens_per_s * share // MILLION, share)


def _tiers(pool: Pool) -> TierTerms:
    tiers = pool.tiers
    return TierTerms(
        tiers.soft, tiers.hard, tiers.circuit_break, tiers.margin, tiers.rise, tiers.dwell
    )


def _terms(default: ClassTerms, said: ClassFields) -> ClassTerms:
    written: dict[str, Any] = {
        "weight": said.weight,
        "alpha": said.alpha,
        "share_cap": said.share_cap,
        "starter": said.starter,
        "longest_wait_ms": said.longest_wait,
        "on_silence": said.on_silence,
        "soft_action": said.soft,
        "hard_action": said.hard,
    }
    return replace(default, **{name: v for name, v in written.items() if v is not None})


def _entitlement(pool: Pool, name: str) -> Entitlement:
    tenant = pool.tenants[name]
    reserved = baseline_of(pool, tenant)
    return Entitlement(
        tenant=name,
        service_class=tenant.service_class,
        suspended=tenant.suspended,
        baseline=reserved.rate,
        baseline_share=reserved.share,
        borrow_cap=tenant.borrow_cap,
        lend_cap=tenant.lend_cap,
        slo_ms=tenant.slo,
        on_silence=tenant.on_silence,
        tags={key: tenant.tags[key] for key in sorted(tenant.tags)},
    )
