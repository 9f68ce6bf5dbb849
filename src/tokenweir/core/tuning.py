"""The slow loop: every now and then a look at what was refused, waited for and used since the last.

It fits α (`alpha.py`) and tenants' limits (`limits.py`); what it changed is told in the audit.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tokenweir.core import ONE
from tokenweir.core.alpha import UNTUNED, PoolLooked, TuningState, alphas_of, next_alpha, part
from tokenweir.core.limits import LEAST, MOST, Bounds, Limits, Looked, next_limits
from tokenweir.core.pool import Pool
from tokenweir.core.terms import UNLIMITED, Ints, Terms
from tokenweir.records.journal import AuditEntry
from tokenweir.records.spec import UNKNOWN, Cycle, Entitlement, PoolSpec

LOOKED = ("looked_ended", "looked_refused", "looked_spent", "looked_wait")
LIMITS = tuple(Limits.__dataclass_fields__)
# The longest that a cycle can be, s: so a quota is never thought to allow more than it does.
CYCLE_S: dict[Cycle, int] = {"minute": 60, "hour": 3_600, "day": 90_000, "month": 2_682_000}


def tune(pool: Pool, spec: PoolSpec, at_ms: int) -> tuple[AuditEntry, ...]:
    """Look, if it is time to; what was changed. The pool's state steps, its spec does not."""
    if spec.tuning.every_ms == 0:
        return ()
    if pool.tuning.looked_ms == 0:
        _begin(pool, at_ms)
        return ()
    passed_ms = at_ms - pool.tuning.looked_ms
    if passed_ms < spec.tuning.every_ms:
        return ()
    alphas = tuple(_tune_alpha(pool, spec, passed_ms, at_ms))
    limits = tuple(_tune_limits(pool, spec, passed_ms, at_ms))
    _begin(pool, at_ms)
    return alphas + limits


def count(pool: Pool, spec: PoolSpec, spent: Ints) -> None:
    """Add what happened since the last decision to what the next look sees."""
    if spec.tuning.every_ms == 0:
        return
    tally = pool.tally
    tally.looked_ended += tally.ended
    tally.looked_refused += tally.refused
    tally.looked_spent += np.maximum(spent, 0)
    tally.looked_wait += tally.waits


def forget(pool: Pool, before: PoolSpec | None, spec: PoolSpec) -> None:
    """What another spec says anew is not tuned any more; the pool's arrays are in its order."""
    if before is None or spec.tuning != before.tuning or alphas_of(spec) != alphas_of(before):
        pool.tuning = UNTUNED
    old = {claim.tenant: _limits(claim) for claim in before.entitlements} if before else {}
    for claim in spec.entitlements:
        if spec.tuning.every_ms == 0 or _limits(claim) != old.get(claim.tenant):
            for name in LIMITS:
                getattr(pool.tally, name)[pool.terms.index[claim.tenant]] = 0


def limited(terms: Terms, limit: Ints) -> Terms:
    """The terms with the tuned borrow caps; a limit of 0 is one."""
    if not limit.any():
        return terms
    caps = terms.borrow_cap * (np.where(limit > 0, limit, ONE) / ONE)
    caps = np.where(terms.borrow_cap < UNLIMITED, caps.astype(np.int64), UNLIMITED)
    return replace(terms, borrow_cap=np.minimum(caps, UNLIMITED))


def _limits(claim: Entitlement) -> tuple[object, ...]:
    quotas = tuple((quota.cycle, quota.tokens) for quota in claim.quotas)
    return claim.baseline, claim.baseline_share, claim.borrow_cap, quotas


def _begin(pool: Pool, at_ms: int) -> None:
    pool.tuning = replace(pool.tuning, looked_ms=at_ms)
    for name in LOOKED:
        getattr(pool.tally, name)[:] = 0


def _tune_alpha(pool: Pool, spec: PoolSpec, passed_ms: int, at_ms: int) -> Iterator[AuditEntry]:
    tally, before = pool.tally, pool.tuning
    ended, refused = int(tally.looked_ended.sum()), int(tally.looked_refused.sum())
    available = pool.capacity.tokens_per_s * max(spec.ceiling - spec.pots, 0) // ONE
    used = int(_rate(tally.looked_spent, passed_ms).sum())
    seen = PoolLooked(
        pool.level, part(refused, ended + refused), part(max(available - used, 0), available)
    )
    pool.tuning = next_alpha(before, seen, spec, at_ms)
    now = pool.tuning.alphas
    for place, was in enumerate(before.alphas or alphas_of(spec)):
        if now[place] != was:
            yield _alpha_entry(spec, before, place, was, now[place], seen)


def _alpha_entry(
    spec: PoolSpec, before: TuningState, place: int, was: int, now: int, seen: PoolLooked
) -> AuditEntry:
    own = place < len(spec.classes)
    why = (
        f"level {seen.level / 10_000:.1f} %, {seen.refused / 10_000:.1f} % of requests refused and "
        f"{seen.idle / 10_000:.1f} % of what may be granted idle since the last look"
    )
    return AuditEntry(
        kind="tuning",
        subject=f"alpha of {spec.classes[place].service_class}" if own else "alpha",
        lost=[],
        gained=[],
        amount=now - was,
        unit="millionths",
        before=f"{was / ONE:g}",
        after=f"{now / ONE:g}",
        why=f"the last change did not help: {why}" if before.place == place else why,
    )


def _tune_limits(pool: Pool, spec: PoolSpec, passed_ms: int, at_ms: int) -> Iterator[AuditEntry]:
    tally = pool.tally
    before = Limits(*(getattr(tally, name) for name in LIMITS))
    by_quota = _by_quota(pool, spec)
    seen = _looked(pool, by_quota, passed_ms)
    after = next_limits(before, seen, _bounds(pool.terms, by_quota, spec), at_ms)
    after.limit[~seen.limited & (before.limit == 0)] = 0
    for name in LIMITS:
        setattr(tally, name, getattr(after, name))
    was = np.where(before.limit > 0, before.limit, ONE)
    now = np.where(after.limit > 0, after.limit, ONE)
    changes: dict[tuple[int, int, bool], list[int]] = {}  # who changes alike: one entry for all
    for place in np.flatnonzero(now != was).tolist():
        undone = int(before.limit_was[place]) > 0
        changes.setdefault((int(was[place]), int(now[place]), undone), []).append(place)
    for (old, new, undone), places in changes.items():
        yield _limit_entry(pool, seen, places, old, new, undone=undone)


def _limit_entry(
    pool: Pool, seen: Looked, places: list[int], was: int, now: int, *, undone: bool
) -> AuditEntry:
    names = [pool.terms.names[place] for place in places]
    why = (
        f"{_span(seen.refused[places])} of requests refused and "
        f"{_span(seen.used[places])} of the limit used since the last look"
    )
    return AuditEntry(
        kind="tuning",
        subject=names[0] if len(names) == 1 else pool.name,
        lost=names if now < was else [],
        gained=names if now > was else [],
        amount=now - was,
        unit="millionths of quotas and borrow cap",
        before=f"{was / ONE:g}",
        after=f"{now / ONE:g}",
        why=f"the last change did not help: {why}" if undone else why,
    )


def _span(parts: Ints) -> str:
    """Parts in millionths: 4.0 %, or 4.0 to 20.0 %."""
    least, most = int(parts.min()) / 10_000, int(parts.max()) / 10_000
    return f"{least:.1f} %" if least == most else f"{least:.1f} to {most:.1f} %"


def _looked(pool: Pool, by_quota: Ints, passed_ms: int) -> Looked:
    tally, terms = pool.tally, pool.terms
    asked = tally.looked_ended + tally.looked_refused
    rate = _rate(tally.looked_spent, passed_ms)
    factor = np.where(tally.limit > 0, tally.limit, ONE) / ONE
    capped = np.where(
        terms.borrow_cap < UNLIMITED,
        terms.baseline + np.minimum(terms.borrow_cap * factor, UNLIMITED),
        UNLIMITED,
    )
    limit = np.minimum(capped, by_quota * factor)
    # What a limit of nothing lets through is no part of it.
    used = np.minimum(rate / np.maximum(limit, 1), MOST / ONE) * ONE
    wait = tally.looked_wait // np.maximum(asked, 1)
    waited = np.minimum(wait / np.maximum(terms.slo_ms, 1), MOST / ONE) * ONE
    named = np.arange(len(terms.names)) != terms.index[UNKNOWN]
    return Looked(
        refused=tally.looked_refused * ONE // np.maximum(asked, 1),
        waited=waited.astype(np.int64),
        used=used.astype(np.int64),
        rate=rate,
        limited=named & (limit < UNLIMITED) & (asked + tally.looked_spent > 0),
    )


def _bounds(terms: Terms, by_quota: Ints, spec: PoolSpec) -> Bounds:
    """A quota is not cut below what the tenant's baseline spends in its cycle."""
    floor = np.minimum(terms.baseline / np.maximum(by_quota, 1), 1) * ONE
    least = np.maximum(floor.astype(np.int64), LEAST)
    return Bounds(least, spec.tuning.limits_most, spec.tuning.cool_down_ms)


def _by_quota(pool: Pool, spec: PoolSpec) -> Ints:
    """What each tenant's quotas let it spend on average, milli-tokens/s; shape (tenants,)."""
    rates = np.full(len(pool.terms.names), UNLIMITED, dtype=np.int64)
    for claim in spec.entitlements:
        for quota in claim.quotas:
            place = pool.terms.index[claim.tenant]
            rates[place] = min(rates[place], quota.tokens * 1000 // CYCLE_S[quota.cycle])
    return rates


def _rate(tokens: Ints, passed_ms: int) -> Ints:
    """Milli-tokens/s; sums over many tenants stay within 64 bits."""
    rate: Ints = np.minimum(tokens, UNLIMITED // 10) * ONE // passed_ms
    return np.minimum(rate, UNLIMITED // 10)
