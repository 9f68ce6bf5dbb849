"""What changes from one spec to the next, in the words of the YAML."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tokenweir.records.spec import ClassTerms, Entitlement, PoolSpec
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
    for key, value in claim.tags.items():
        yield f"tags.{key}", value
