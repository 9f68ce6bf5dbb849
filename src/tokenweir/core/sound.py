"""Which specs and capacities the core can compute with, so that no sum exceeds 64 bits.

Whether a spec makes sense is checked where it is written; this keeps a bad one out of the log's
readers, whoever produced it.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise

from tokenweir.core import ONE
from tokenweir.errors import BadRecord
from tokenweir.records.spec import CLASSES, UNKNOWN, Entitlement, PoolSpec

Bounds = Mapping[str, tuple[int, int]]

DAY_MS = 86_400_000
MOST_RATE = 10**12  # milli-tokens/s
FACTOR = (0, 1000 * ONE)
PART = (0, ONE)

CAPACITY: Bounds = {
    "tokens_per_s": (0, MOST_RATE),
    "kv_bytes": (0, 2**60),
    "sequences": (0, 10**9),
}
SPEC: Bounds = {
    "version": (1, 2**62),
    "interval_ms": (250, 60_000),
    "window_s": (1, 3_600),
    "grace_s": (0, 600),
    "lease_ms": (1, DAY_MS),
    "floor_ms": (1, DAY_MS),
    "longest_request_ms": (1, DAY_MS),
    "burst": (0, MOST_RATE),
    "ceiling": PART,
    "pots": PART,
    "alpha": PART,
    "ewma": PART,
    "debt_gain": PART,
}
TOKEN_WEIGHTS: Bounds = {"uncached": FACTOR, "cached": FACTOR, "out": FACTOR}
TIERS: Bounds = {
    "soft": (0, 2 * ONE),
    "hard": (0, 2 * ONE),
    "circuit_break": (0, 2 * ONE),
    "margin": PART,
    "rise": (1, 100),
    "dwell_ms": (0, DAY_MS),
}
WEIGHTS: Bounds = {"slo": FACTOR, "burst": FACTOR, "debt": FACTOR}
CLASS: Bounds = {
    "weight": (1, 10**12),
    "alpha": PART,
    "share_cap": PART,
    "starter": PART,
    "longest_wait_ms": (0, DAY_MS),
}
ENTITLEMENT: Bounds = {
    "baseline": (0, MOST_RATE),
    "baseline_share": PART,
    "borrow_cap": (0, MOST_RATE),
    "lend_cap": (0, MOST_RATE),
    "slo_ms": (0, DAY_MS),
    "sequences": (0, 10**9),
    "sequence_cap": (0, 10**9),
    "kv_bytes": (0, 2**60),
    "kv_cap": (0, 2**60),
}
BREAKER: Bounds = {
    "cool_off_ms": (1, DAY_MS),
    "longest_cool_off_ms": (1, DAY_MS),
    "probe": PART,
    "error_rate": PART,
}
RECLAIM: Bounds = {"beta": PART, "cool_down_ms": (0, DAY_MS), "resume_ms": (1, DAY_MS)}
TUNING: Bounds = {
    "every_ms": (0, DAY_MS),
    "cool_down_ms": (0, DAY_MS),
    "alpha_least": PART,
    "alpha_most": PART,
    "limits_most": (ONE, 1000 * ONE),
}
QUOTA: Bounds = {"tokens": (0, 10**15), "rollover": (0, 10**15)}
CEILING: Bounds = {"tokens": (0, 10**15)}
USER: Bounds = {"weight": (1, 10**12)}
SCHEDULED: Bounds = {
    "minute": (0, 7 * 1440 - 1),
    "tokens_per_s": (0, MOST_RATE),
    "kv_bytes": (0, 2**60),
    "sequences": (0, 10**9),
}
# Offsets of zones lie within a day, seconds.
MOST_OFFSET_S = 86_400


def check_spec(spec: PoolSpec) -> None:
    """Raise `BadRecord`, with everything that is wrong, for a spec that cannot be used."""
    faults = [*_faults(spec)]
    if faults:
        raise BadRecord("; ".join(faults))


def check_bounds(record: object, bounds: Bounds) -> None:
    """Raise `BadRecord` where a number of `record` is out of its bounds; null has none."""
    faults = [*_outside(record, bounds, "")]
    if faults:
        raise BadRecord("; ".join(faults))


def _faults(spec: PoolSpec) -> Iterator[str]:
    yield from _outside(spec, SPEC, "")
    yield from _outside(spec.capacity, CAPACITY, "capacity.")
    yield from _outside(spec.token_weights, TOKEN_WEIGHTS, "token_weights.")
    yield from _outside(spec.tiers, TIERS, "tiers.")
    yield from _outside(spec.weights, WEIGHTS, "weights.")
    yield from _outside(spec.breaker, BREAKER, "breaker.")
    yield from _outside(spec.reclaim, RECLAIM, "reclaim.")
    yield from _outside(spec.tuning, TUNING, "tuning.")
    yield from _calendar(spec)
    named = tuple(terms.service_class for terms in spec.classes)
    if named != CLASSES:
        yield f"classes are {', '.join(named)}: {', '.join(CLASSES)} are needed"
    for terms in spec.classes:
        yield from _outside(terms, CLASS, f"classes.{terms.service_class}.")
    seen = {"", UNKNOWN}
    for claim in spec.entitlements:
        if claim.tenant in seen:
            yield f"tenant {claim.tenant!r}: names must differ, and not be empty or {UNKNOWN}"
        seen.add(claim.tenant)
        yield from _outside(claim, ENTITLEMENT, f"tenant {claim.tenant}: ")
        yield from _quotas(spec, claim)


def _calendar(spec: PoolSpec) -> Iterator[str]:
    names = [zone.name for zone in spec.zones]
    for zone in spec.zones:
        from_ms = [*zone.from_ms]
        if not from_ms or from_ms[0] != 0 or any(a >= b for a, b in pairwise(from_ms)):
            yield f"zone {zone.name}: from_ms must begin with 0 and ascend"
        if len(zone.offset_s) != len(from_ms):
            yield f"zone {zone.name}: {len(zone.offset_s)} offsets for {len(from_ms)} times"
        if any(abs(offset) > MOST_OFFSET_S for offset in zone.offset_s):
            yield f"zone {zone.name}: offsets are within {MOST_OFFSET_S} s"
    for number, entry in enumerate(spec.schedule):
        yield from _outside(entry, SCHEDULED, f"schedule.{number}.")
        if entry.zone not in names:
            yield f"schedule.{number}: zone {entry.zone} is not among the spec's zones"


def _quotas(spec: PoolSpec, claim: Entitlement) -> Iterator[str]:
    names = {zone.name for zone in spec.zones}
    where = f"tenant {claim.tenant}: "
    lists = [claim.quotas, claim.user_quotas, *(user.quotas for user in claim.users)]
    for quotas in lists:
        if len({quota.cycle for quota in quotas}) < len(quotas):
            yield f"{where}more than one quota a cycle"
        for quota in quotas:
            yield from _outside(quota, QUOTA, f"{where}quota {quota.cycle}: ")
            if quota.zone not in names:
                yield f"{where}zone {quota.zone} is not among the spec's zones"
    if len({user.user for user in claim.users}) < len(claim.users):
        yield f"{where}users: names must differ"
    for user in claim.users:
        yield from _outside(user, USER, f"{where}user {user.user}: ")


def _outside(record: object, bounds: Bounds, where: str) -> Iterator[str]:
    for name, (least, most) in bounds.items():
        value = getattr(record, name)
        if value is not None and not least <= value <= most:
            yield f"{where}{name} is {value}: {least} to {most} is allowed"
