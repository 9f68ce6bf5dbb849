"""Which specs and capacities the core can compute with, so that no sum exceeds 64 bits.

Whether a spec makes sense is checked where it is written; this keeps a bad one out of the log's
readers, whoever produced it.
"""

from collections.abc import Iterator, Mapping

from tokenweir.core import ONE
from tokenweir.errors import BadRecord
from tokenweir.records.spec import CLASSES, UNKNOWN, PoolSpec

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
}


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


def _outside(record: object, bounds: Bounds, where: str) -> Iterator[str]:
    for name, (least, most) in bounds.items():
        value = getattr(record, name)
        if value is not None and not least <= value <= most:
            yield f"{where}{name} is {value}: {least} to {most} is allowed"
