"""What a spec says of each tenant, as arrays in the order of the tenants' names (A2)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from tokenweir.core import ONE
from tokenweir.records.spec import RANK, UNKNOWN, Capacity, ClassTerms, Entitlement, PoolSpec

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

PREEMPTIBLE = RANK["preemptible"]
ELASTIC = RANK["elastic"]
GUARANTEED = RANK["guaranteed"]
DEDICATED = RANK["dedicated"]
# Stands for "no cap": larger than any rate, small enough to be added up over all tenants.
UNLIMITED = 10**13
MIB = 2**20  # KV bytes are counted in these, so that products stay within 64 bits


@dataclass(frozen=True, slots=True, eq=False)
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
    sequences: Ints  # reserved; 0 where the pool has no limit, as below
    sequence_cap: Ints
    kv: Ints  # reserved, MiB
    kv_cap: Ints  # MiB
    suspended: Bools
    floor_on_silence: Bools  # the floor outlives the lease (L7)

    def find(self, names: Sequence[str]) -> Ints:
        """The positions of `names`; those that no spec knows share one."""
        places = map(self.index.get, names, repeat(self.unknown))
        return np.fromiter(places, dtype=np.int64, count=len(names))

    def of_class(self, least: int, most: int = DEDICATED) -> Bools:
        """Which tenants' class lies from rank `least` to rank `most`, both included."""
        return (self.rank >= least) & (self.rank <= most)


@dataclass(frozen=True, slots=True)
class Standing:
    """What follows from terms alone, so that not every decision computes it; shapes (tenants,)."""

    open: Bools  # not suspended
    firm: Bools  # elastic, guaranteed and dedicated
    sides: Ints  # (tenants, 2): 1 in the first column for firm ones, in the second for others
    elastic: Bools
    preemptible: bool  # whether there are any
    dedicated_floor: Ints  # the baselines of those who are not suspended
    guaranteed_floor: Ints
    elastic_floor: Ints
    lasting_floor: Ints  # (tenants + 1,): of those whose floor outlives the lease; pots have none
    most: Ints  # baseline and borrow cap together
    levels: Bools  # (classes, tenants): who is of which class, the highest first


@lru_cache(maxsize=64)
def standing(terms: Terms) -> Standing:
    """What follows from these terms."""
    open_, firm = ~terms.suspended, terms.of_class(ELASTIC)

    def floor(inside: Bools) -> Ints:
        return np.where(inside & open_, terms.baseline, 0)

    return Standing(
        open=open_,
        firm=firm,
        sides=np.array([firm, ~firm], dtype=np.int64).T.copy(),
        elastic=terms.of_class(ELASTIC, ELASTIC),
        preemptible=bool((terms.rank == PREEMPTIBLE).any()),
        dedicated_floor=floor(terms.of_class(DEDICATED)),
        guaranteed_floor=floor(terms.of_class(GUARANTEED, GUARANTEED)),
        elastic_floor=floor(terms.of_class(ELASTIC, ELASTIC)),
        lasting_floor=np.concatenate((floor(terms.floor_on_silence), (0,))),
        most=np.minimum(terms.baseline + terms.borrow_cap, UNLIMITED),
        levels=terms.rank == np.arange(DEDICATED, PREEMPTIBLE - 1, -1)[:, None],
    )


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
        sequences=ints([_part(c, c.sequences, capacity.sequences, 1, capacity) for c in claims]),
        sequence_cap=ints([_cap(claim.sequence_cap) for claim in claims]),
        kv=ints([_part(c, c.kv_bytes, capacity.kv_bytes, MIB, capacity) for c in claims]),
        kv_cap=ints([_cap(None if c.kv_cap is None else c.kv_cap // MIB) for c in claims]),
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


def _part(
    claim: Entitlement, reserved: int | None, all_: int | None, unit: int, capacity: Capacity
) -> int:
    """What is reserved of another resource: what the spec says, else as the baseline's share."""
    if all_ is None or RANK[claim.service_class] < ELASTIC:
        return 0
    if reserved is not None:
        return reserved // unit
    return (all_ // unit) * baseline_of(claim, capacity) // max(capacity.tokens_per_s, 1)


def _cap(value: int | None) -> int:
    return UNLIMITED if value is None else value
