"""From a spec as people write it to the record that the log carries: integers only."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from tokenweir.records.spec import (
    BreakerTerms,
    Capacity,
    ClassTerms,
    Entitlement,
    PoolSpec,
    Quota,
    ReclaimTerms,
    ScheduledCapacity,
    TierTerms,
    TokenWeights,
    TuningTerms,
    UserTerms,
    WeightTerms,
)
from tokenweir.spec import model
from tokenweir.spec.classes import default_terms
from tokenweir.spec.model import Baseline, ClassFields, Pool, Tenant
from tokenweir.spec.zones import zone_of

MILLION = 1_000_000
UNTUNED = TuningTerms(0, 0, 0, MILLION, MILLION)


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
        breaker=_breaker(pool),
        reclaim=ReclaimTerms(pool.reclaim.beta, pool.reclaim.cool_down, pool.reclaim.resume),
        tuning=_tuning(pool),
        zones=tuple(zone_of(name) for name in sorted({*_zones(pool)})),
        schedule=_schedule(pool),
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
        sequences=tenant.sequences,
        sequence_cap=tenant.sequence_cap,
        kv_bytes=tenant.kv_bytes,
        kv_cap=tenant.kv_cap,
        quotas=_quotas(tenant.quotas),
        user_quotas=_quotas(tenant.user_quotas),
        users=tuple(
            UserTerms(name, tenant.users[name].weight, _quotas(tenant.users[name].quotas))
            for name in sorted(tenant.users)
        ),
    )


def _quotas(quotas: Sequence[model.Quota]) -> tuple[Quota, ...]:
    return tuple(
        Quota(one.per, one.zone, one.tokens, one.rollover or 0, one.lend, one.across)
        for one in quotas
    )


def _breaker(pool: Pool) -> BreakerTerms:
    brake = pool.breaker
    return BreakerTerms(
        brake.refuses, brake.cool_off, brake.longest_cool_off, brake.probe, brake.error_rate
    )


def _tuning(pool: Pool) -> TuningTerms:
    if pool.tuning is None:
        return UNTUNED
    loop = pool.tuning
    return TuningTerms(
        loop.every, loop.cool_down, loop.alpha_least, loop.alpha_most, loop.limits_most
    )


def _schedule(pool: Pool) -> tuple[ScheduledCapacity, ...]:
    """The entries by zone and time of the week."""
    entries = [
        ScheduledCapacity(one.zone, minute, one.tokens_per_s, one.kv_bytes, one.sequences)
        for one in pool.schedule
        for minute in one.at
    ]
    return tuple(sorted(entries, key=lambda entry: (entry.zone, entry.minute)))


def _zones(pool: Pool) -> Iterator[str]:
    yield from (one.zone for one in pool.schedule)
    for tenant in pool.tenants.values():
        users = [quota for user in tenant.users.values() for quota in user.quotas]
        yield from (quota.zone for quota in (*tenant.quotas, *tenant.user_quotas, *users))
