"""What a spec says of each tenant, as arrays in the order of the tenants' names (A2)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokenweir.core import ONE
from tokenweir.records.spec import RANK, UNKNOWN, Capacity, ClassTerms, Entitlement, PoolSpec

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

ELASTIC = RANK["elastic"]
GUARANTEED = RANK["guaranteed"]
DEDICATED = RANK["dedicated"]
# Stands for "no cap": larger than any rate, small enough to be added up over all tenants.
UNLIMITED = 10**13


@dataclass(frozen=True, slots=True)
class Terms:
    """Arrays of shape (tenants,); rates in milli-tokens/s, ratios in millionths."""

    names: tuple[str, ...]
    index: Mapping[str, int]
    unknown: int  # where names go that no spec knows
    rank: Ints  # 0 preemptible … 4 dedicated
    class_weight: Ints
    slo_ms: Ints
    baseline: Ints
    borrow_cap: Ints
    lend_cap: Ints
    suspended: Bools
    floor_on_silence: Bools  # the floor outlives the lease (L7)

    def find(self, names: Sequence[str]) -> Ints:
        """The positions of `names`; those that no spec knows share one."""
        get, unknown = self.index.get, self.unknown
        return np.array([get(name, unknown) for name in names], dtype=np.int64)

    def of_class(self, least: int, most: int = DEDICATED) -> Bools:
        """Which tenants' class lies from rank `least` to rank `most`, both included."""
        return (self.rank >= least) & (self.rank <= most)


NOBODY = Entitlement(UNKNOWN, "spot", False, 0, None, None, None, 1000, None, {})


def terms_of(spec: PoolSpec | None, capacity: Capacity) -> Terms:
    """The terms of a pool; of one without a spec, whose tenants are all unknown."""
    if spec is None:
        return _terms((NOBODY,), (), capacity)
    stranger = Entitlement(UNKNOWN, spec.unknown_class, False, 0, None, None, None, 1000, None, {})
    return _terms((*spec.entitlements, stranger), spec.classes, capacity)


def _terms(
    claims: Sequence[Entitlement], classes: Sequence[ClassTerms], capacity: Capacity
) -> Terms:
    claims = sorted(claims, key=lambda claim: claim.tenant)
    by_class = {terms.service_class: terms for terms in classes}
    names = tuple(claim.tenant for claim in claims)
    index = {name: place for place, name in enumerate(names)}
    weights = {name: terms.weight for name, terms in by_class.items()}
    silence = {name: terms.on_silence for name, terms in by_class.items()}

    def ints(values: Sequence[int]) -> Ints:
        return np.array(values, dtype=np.int64)

    return Terms(
        names=names,
        index=index,
        unknown=index[UNKNOWN],
        rank=ints([RANK[claim.service_class] for claim in claims]),
        class_weight=ints([weights.get(claim.service_class, ONE) for claim in claims]),
        slo_ms=ints([claim.slo_ms for claim in claims]),
        baseline=ints([baseline_of(claim, capacity) for claim in claims]),
        borrow_cap=ints([_cap(claim.borrow_cap) for claim in claims]),
        lend_cap=ints([_cap(claim.lend_cap) for claim in claims]),
        suspended=np.array([claim.suspended for claim in claims], dtype=np.bool_),
        floor_on_silence=np.array(
            [(claim.on_silence or silence.get(claim.service_class)) == "floor" for claim in claims],
            dtype=np.bool_,
        ),
    )


def baseline_of(claim: Entitlement, capacity: Capacity) -> int:
    """What is reserved for a tenant, in milli-tokens/s; spot and preemptible reserve nothing."""
    if RANK[claim.service_class] < ELASTIC:
        return 0
    if claim.baseline_share is None:
        return claim.baseline
    return capacity.tokens_per_s * claim.baseline_share // ONE


def _cap(value: int | None) -> int:
    return UNLIMITED if value is None else value
