"""What changes from one spec to the next, in the words of the YAML."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tokenweir.records.spec import ClassTerms, Entitlement, PoolSpec, Quota, ScheduledCapacity
from tokenweir.spec import words

Words = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Change:
    """One field that differs; None where there was, or will be, none."""

    path: str
    before: str | None
    after: str | None


def difference(old: PoolSpec | None, new: PoolSpec) -> tuple[Change, ...]:
    """Every field of the compiled specs that differs, in the order of the YAML.

    A tenant that comes or goes is one change. Without an `old` one everything is a change.
    Versions and comments are none.
    """
    pool = _changes({} if old is None else _terms(old), _terms(new))
    before = {} if old is None else {claim.tenant: claim for claim in old.entitlements}
    after = {claim.tenant: claim for claim in new.entitlements}
    for tenant in sorted({*before, *after}):
        pool += _tenant(tenant, before.get(tenant), after.get(tenant))
    return tuple(pool)


def _tenant(name: str, old: Entitlement | None, new: Entitlement | None) -> list[Change]:
    path = f"tenants.{name}"
    if old is not None and new is not None:
        changes = _changes(dict(_claim(old)), dict(_claim(new)))
        return [replace(change, path=f"{path}.{change.path}") for change in changes]
    return [Change(path, _in_short(old), _in_short(new))]


def _in_short(claim: Entitlement | None) -> str | None:
    if claim is None:
        return None
    (_, service_class), *others = _claim(claim)
    return ", ".join([service_class, *(f"{name} {text}" for name, text in others)])


def _changes(before: Words, after: Words) -> list[Change]:
    paths = [*after, *(path for path in before if path not in after)]
    return [
        Change(path, before.get(path), after.get(path))
        for path in paths
        if before.get(path) != after.get(path)
    ]


def _terms(spec: PoolSpec) -> Words:
    """What a spec says of the pool and its classes, path by path."""
    said = dict(_pool(spec))
    for terms in reversed(spec.classes):
        said |= {f"classes.{terms.service_class}.{name}": text for name, text in _class(terms)}
    return said


def _pool(spec: PoolSpec) -> Iterator[tuple[str, str]]:
    yield "mode", spec.mode
    yield "capacity.tokens_per_s", words.rate(spec.capacity.tokens_per_s)
    if spec.capacity.kv_bytes is not None:
        yield "capacity.kv_bytes", words.size(spec.capacity.kv_bytes)
    if spec.capacity.sequences is not None:
        yield "capacity.sequences", words.number(spec.capacity.sequences)
    yield "interval", words.time(spec.interval_ms)
    yield "window", words.time(spec.window_s * 1000)
    yield "grace", words.time(spec.grace_s * 1000)
    yield "lease", words.time(spec.lease_ms)
    yield "silent_floor", words.time(spec.floor_ms)
    yield "longest_request", words.time(spec.longest_request_ms)
    if spec.burst is not None:
        yield "burst", words.tokens(spec.burst)
    for name in ("uncached", "cached", "out"):
        yield f"token_weights.{name}", words.millionths(getattr(spec.token_weights, name))
    yield "ceiling", words.millionths(spec.ceiling)
    yield "pots", words.millionths(spec.pots)
    yield "alpha", words.millionths(spec.alpha)
    yield from _tiers(spec)
    yield "smoothing.rate", f"{words.millionths(spec.ewma)} an interval"
    yield "smoothing.debt", f"{words.millionths(spec.debt_gain)} an interval"
    for name in ("slo", "burst", "debt"):
        yield f"weights.{name}", words.millionths(getattr(spec.weights, name))
    yield "unknown.class", spec.unknown_class
    yield from _steering(spec)
    for entry in spec.schedule:
        yield f"schedule.{words.week_time(entry.minute)} {entry.zone}", _scheduled(entry)


def _steering(spec: PoolSpec) -> Iterator[tuple[str, str]]:
    """Breaker, reclaim and tuning."""
    yield "breaker.refuses", spec.breaker.refuses
    yield "breaker.cool_off", words.time(spec.breaker.cool_off_ms)
    yield "breaker.longest_cool_off", words.time(spec.breaker.longest_cool_off_ms)
    yield "breaker.probe", words.millionths(spec.breaker.probe)
    yield "breaker.error_rate", words.millionths(spec.breaker.error_rate)
    yield "reclaim.beta", words.millionths(spec.reclaim.beta)
    yield "reclaim.cool_down", words.time(spec.reclaim.cool_down_ms)
    yield "reclaim.resume", words.time(spec.reclaim.resume_ms)
    if spec.tuning.every_ms:
        yield "tuning.every", words.time(spec.tuning.every_ms)
        yield "tuning.cool_down", words.time(spec.tuning.cool_down_ms)
        yield "tuning.alpha_least", words.millionths(spec.tuning.alpha_least)
        yield "tuning.alpha_most", words.millionths(spec.tuning.alpha_most)
        yield "tuning.limits_most", words.millionths(spec.tuning.limits_most)


def _scheduled(entry: ScheduledCapacity) -> str:
    parts = []
    if entry.tokens_per_s is not None:
        parts.append(words.rate(entry.tokens_per_s))
    if entry.kv_bytes is not None:
        parts.append(words.size(entry.kv_bytes))
    if entry.sequences is not None:
        parts.append(f"{words.number(entry.sequences)} sequences")
    return ", ".join(parts)


def _tiers(spec: PoolSpec) -> Iterator[tuple[str, str]]:
    yield "tiers.soft", words.millionths(spec.tiers.soft)
    yield "tiers.hard", words.millionths(spec.tiers.hard)
    yield "tiers.break", words.millionths(spec.tiers.circuit_break)
    yield "tiers.margin", words.millionths(spec.tiers.margin)
    yield "tiers.rise", f"{spec.tiers.rise} decisions"
    yield "tiers.dwell", words.time(spec.tiers.dwell_ms)


def _class(terms: ClassTerms) -> Iterator[tuple[str, str]]:
    yield "weight", words.millionths(terms.weight)
    if terms.alpha is not None:
        yield "alpha", words.millionths(terms.alpha)
    if terms.share_cap is not None:
        yield "share_cap", words.millionths(terms.share_cap)
    yield "starter", words.millionths(terms.starter)
    yield "longest_wait", words.time(terms.longest_wait_ms)
    yield "on_silence", terms.on_silence
    yield "soft", terms.soft_action
    yield "hard", terms.hard_action


def _claim(claim: Entitlement) -> Iterator[tuple[str, str]]:
    yield "class", claim.service_class
    if claim.baseline_share is not None:
        yield "baseline", f"{words.share(claim.baseline_share)} of the capacity"
    elif claim.baseline:
        yield "baseline", words.rate(claim.baseline)
    if claim.borrow_cap is not None:
        yield "borrow_cap", words.rate(claim.borrow_cap)
    if claim.lend_cap is not None:
        yield "lend_cap", words.rate(claim.lend_cap)
    yield "slo", words.time(claim.slo_ms)
    if claim.suspended:
        yield "suspended", "true"
    if claim.on_silence is not None:
        yield "on_silence", claim.on_silence
    for name in ("sequences", "sequence_cap"):
        if getattr(claim, name) is not None:
            yield name, words.number(getattr(claim, name))
    for name in ("kv_bytes", "kv_cap"):
        if getattr(claim, name) is not None:
            yield name, words.size(getattr(claim, name))
    yield from _quotas("quotas", claim.quotas)
    yield from _quotas("user_quotas", claim.user_quotas)
    for user in claim.users:
        yield f"users.{user.user}.weight", words.millionths(user.weight)
        yield from _quotas(f"users.{user.user}.quotas", user.quotas)
    for key, value in claim.tags.items():
        yield f"tags.{key}", value


def _quotas(path: str, quotas: Sequence[Quota]) -> Iterator[tuple[str, str]]:
    for quota in quotas:
        said = f"{words.number(quota.tokens)} tokens, {quota.zone}"
        if quota.rollover:
            said += f", rollover {words.number(quota.rollover)}"
        said += ", lent" * quota.lend + ", across pools" * quota.across
        yield f"{path}.{quota.cycle}", said
