"""What must hold between the fields of a spec, beyond each field by itself."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tokenweir.records.spec import Action, ClassTerms
from tokenweir.spec.classes import BORROWING, CORE, CORE_WAIT
from tokenweir.spec.compile import baseline_of, terms_of
from tokenweir.spec.document import Place
from tokenweir.spec.model import Pool, Quota, Tenant
from tokenweir.spec.words import millionths, number, rate, share, size, time

MILLION = 1_000_000
MILDEST_FIRST: tuple[Action, ...] = ("none", "limit", "floor_only", "refuse")
LEASE_INTERVALS = 3  # a lease must outlive report, decision and renewal (L4)


@dataclass(frozen=True, slots=True)
class Fault:
    """Fields that do not go together: the one to change first, and the others."""

    place: Place
    value: str
    allowed: str
    others: tuple[Place, ...] = ()


def faults(pool: Pool) -> Iterator[Fault]:
    """Everything that does not go together in `pool`."""
    for check in _CHECKS:
        yield from check(pool)


def _floors(pool: Pool) -> Iterator[Fault]:
    core = sum(baseline_of(pool, t).rate for t in pool.tenants.values() if t.service_class in CORE)
    capacity = pool.capacity.tokens_per_s
    needed = core + capacity * pool.pots // MILLION
    most = capacity * pool.ceiling // MILLION
    if needed > most:
        yield Fault(
            ("tenants",),
            f"{rate(needed)} (baselines of dedicated and guaranteed tenants {rate(core)}, "
            f"starter pots {share(pool.pots)} of the capacity)",
            f"floors above capacity: together at most {rate(most)}, which is the ceiling "
            f"{millionths(pool.ceiling)} of {rate(capacity)}",
            (("capacity",), ("ceiling",), ("pots",)),
        )


def _places(pool: Pool) -> Iterator[Fault]:
    """Sequences and KV bytes that the core reserves by name must fit like its floors do."""
    core = [tenant for tenant in pool.tenants.values() if tenant.service_class in CORE]
    for name, words in (("sequences", number), ("kv_bytes", size)):
        capacity = getattr(pool.capacity, name)
        if capacity is None:
            yield from _without_limit(pool, name)
            continue
        needed = sum(getattr(tenant, name) or 0 for tenant in core)
        most = capacity * (pool.ceiling - pool.pots) // MILLION
        if needed > most:
            yield Fault(
                ("tenants",),
                f"{words(needed)} {name} reserved for dedicated and guaranteed tenants",
                f"together at most {words(most)}, which is what ceiling and pots leave of "
                f"{words(capacity)}",
                (("capacity", name),),
            )


def _without_limit(pool: Pool, name: str) -> Iterator[Fault]:
    cap = {"sequences": "sequence_cap", "kv_bytes": "kv_cap"}[name]
    for tenant, claim in pool.tenants.items():
        for field in (name, cap):
            if getattr(claim, field) is not None:
                yield Fault(
                    ("tenants", tenant, field),
                    str(getattr(claim, field)),
                    f"none, or say capacity.{name} too: without it nothing of it is counted",
                    (("capacity",),),
                )


def _tiers(pool: Pool) -> Iterator[Fault]:
    tiers = pool.tiers
    steps = (("soft", tiers.soft), ("hard", tiers.hard), ("break", tiers.circuit_break))
    for (below, low), (name, high) in pairwise(steps):
        if high <= low:
            above = f"above {below}, which is {millionths(low)}"
            yield Fault(("tiers", name), millionths(high), above, (("tiers", below),))
    if tiers.margin >= tiers.soft:
        below_soft = f"below soft, which is {millionths(tiers.soft)}"
        yield Fault(("tiers", "margin"), millionths(tiers.margin), below_soft, (("tiers", "soft"),))


def _times(pool: Pool) -> Iterator[Fault]:
    shortest = LEASE_INTERVALS * pool.interval
    for name, ms, least, what, other in (
        ("window", pool.window * 1000, pool.interval, "one interval", "interval"),
        ("lease", pool.lease, shortest, f"{LEASE_INTERVALS} intervals", "interval"),
        ("silent_floor", pool.silent_floor, pool.lease, "one lease", "lease"),
    ):
        if ms < least:
            yield Fault((name,), time(ms), f"at least {what}: {time(least)}", ((other,),))


def _waits(pool: Pool) -> Iterator[Fault]:
    least = CORE_WAIT * pool.interval
    for terms in terms_of(pool):
        if terms.service_class in CORE and terms.longest_wait_ms < least:
            yield Fault(
                ("classes", terms.service_class, "longest_wait"),
                time(terms.longest_wait_ms),
                f"at least {CORE_WAIT} intervals, {time(least)}, so that what others borrowed "
                "can come back",
                (("interval",),),
            )


def _actions(pool: Pool) -> Iterator[Fault]:
    terms = terms_of(pool)
    for one in terms:
        if _mildness(one.hard_action) > _mildness(one.soft_action):
            yield _action(one, "hard", f"not milder than soft, which is {one.soft_action}", one)
    for lower, one in pairwise(terms):
        for tier in ("soft", "hard"):
            if _mildness(_of(lower, tier)) > _mildness(_of(one, tier)):
                said = f"not harder than for {lower.service_class}, which is {_of(lower, tier)}"
                yield _action(one, tier, said, lower)


def _refused_core(pool: Pool) -> Iterator[Fault]:
    for one in terms_of(pool):
        for tier in ("soft", "hard"):
            if one.service_class in CORE and _of(one, tier) == "refuse":
                yield _action(one, tier, "none, limit or floor_only: its floor is kept", one)


def _action(one: ClassTerms, tier: str, allowed: str, other: ClassTerms) -> Fault:
    place = ("classes", one.service_class, tier)
    others = tuple(("classes", other.service_class, name) for name in ("soft", "hard"))
    return Fault(place, _of(one, tier), allowed, others)


def _of(terms: ClassTerms, tier: str) -> Action:
    return terms.soft_action if tier == "soft" else terms.hard_action


def _mildness(action: Action) -> int:
    return -MILDEST_FIRST.index(action)


def _tenants(pool: Pool) -> Iterator[Fault]:
    for name, tenant in pool.tenants.items():
        for field, value, allowed in _claims(pool, tenant):
            yield Fault(("tenants", name, field), value, allowed, (("tenants", name, "class"),))


def _quotas(pool: Pool) -> Iterator[Fault]:
    for name, tenant in pool.tenants.items():
        lists: list[tuple[Place, Sequence[Quota]]] = [
            (("tenants", name, "quotas"), tenant.quotas),
            (("tenants", name, "user_quotas"), tenant.user_quotas),
            *(
                (("tenants", name, "users", user, "quotas"), terms.quotas)
                for user, terms in tenant.users.items()
            ),
        ]
        for place, quotas in lists:
            yield from _twice(place, quotas)


def _twice(place: Place, quotas: Sequence[Quota]) -> Iterator[Fault]:
    seen: set[str] = set()
    for at, quota in enumerate(quotas):
        if quota.per in seen:
            yield Fault((*place, at, "per"), quota.per, "one quota a cycle")
        seen.add(quota.per)
        if quota.across and (quota.rollover or quota.lend):
            fields = ("rollover", "lend") if quota.rollover else ("lend", "rollover")
            allowed = "none with across: what is left is shared by the pools, not kept or lent"
            value = "true" if fields[0] == "lend" else f"{quota.rollover} tokens"
            yield Fault((*place, at, fields[0]), value, allowed, ((*place, at, "across"),))


def _scheduled(pool: Pool) -> Iterator[Fault]:
    for place, entry in enumerate(pool.schedule):
        if (entry.tokens_per_s, entry.kv_bytes, entry.sequences) == (None, None, None):
            yield Fault(("schedule", place), "no capacity", "tokens_per_s, kv_bytes or sequences")


def _steering(pool: Pool) -> Iterator[Fault]:
    brake = pool.breaker
    if brake.longest_cool_off < brake.cool_off:
        yield Fault(
            ("breaker", "longest_cool_off"),
            time(brake.longest_cool_off),
            f"at least cool_off, which is {time(brake.cool_off)}",
            (("breaker", "cool_off"),),
        )
    loop = pool.tuning
    if loop is not None and loop.alpha_least > loop.alpha_most:
        yield Fault(
            ("tuning", "alpha_least"),
            millionths(loop.alpha_least),
            f"at most alpha_most, which is {millionths(loop.alpha_most)}",
            (("tuning", "alpha_most"),),
        )
    if loop is not None and loop.limits_most < MILLION:
        yield Fault(("tuning", "limits_most"), millionths(loop.limits_most), "1 or more")


def _claims(pool: Pool, tenant: Tenant) -> Iterator[tuple[str, str, str]]:
    reserved, one = baseline_of(pool, tenant).rate, tenant.service_class
    if one in BORROWING and reserved:
        others = "elastic, guaranteed or dedicated"
        yield "baseline", rate(reserved), f"none for {one}: leave it out, or use class {others}"
    if one in CORE and not reserved:
        yield "baseline", rate(reserved), f"more than 0 for {one}, or class elastic"
    if one == "dedicated" and tenant.lend_cap:
        yield "lend_cap", rate(tenant.lend_cap), "none for dedicated: its baseline is never lent"


_CHECKS: tuple[Callable[[Pool], Iterator[Fault]], ...] = (
    _floors,
    _places,
    _tiers,
    _times,
    _waits,
    _actions,
    _refused_core,
    _tenants,
    _quotas,
    _scheduled,
    _steering,
)
