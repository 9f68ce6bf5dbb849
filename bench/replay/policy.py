"""What each tenant is granted, tenant by tenant in plain Python: the core's steps for this log."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tokenweir.core.actions import action_of
from tokenweir.records.control import Tier
from tokenweir.records.spec import RANK, Action, PoolSpec

ONE = 1_000_000
UNLIMITED = 10**13
ELASTIC, GUARANTEED, DEDICATED = RANK["elastic"], RANK["guaranteed"], RANK["dedicated"]
Amounts = dict[str, int]


@dataclass(frozen=True, slots=True)
class Given:
    """Milli-tokens/s of one tenant."""

    floor: int = 0
    borrowed: int = 0
    grant: int = 0


@dataclass(slots=True)
class Tenant:
    """What is known of one tenant."""

    rank: int
    baseline: int
    class_weight: int
    slo_ms: int
    totals: list[int] = field(default_factory=lambda: [0] * 9)
    window: dict[int, int] = field(default_factory=dict)  # charged tokens by second
    refused: int = 0  # since the last decision, as are the next three
    waits: int = 0
    ended: int = 0
    failed: int = 0
    rate: int = 0  # smoothed, as are the next four
    refusals: int = 0
    wait: int = 0
    burst: int = 0
    sequences: int = 0
    debt: int = 0
    given: Given = Given()  # by the last decision
    lost_ms: int = 0
    gained_ms: int = 0


def smooth(before: int, now: int, gain: int) -> int:
    """One step with weight `gain` for the newest figure."""
    return (before * (ONE - gain) + now * gain) // ONE


def weigh(tenants: Mapping[str, Tenant], spec: PoolSpec) -> Amounts:
    """Who goes first: by class, SLO, burst and debt."""
    factors, found = spec.weights, {}
    for name, tenant in tenants.items():
        slo = 1.0 + factors.slo / ONE * (tenant.slo_ms / 1000)
        bursty = 1.0 + factors.burst / ONE * (tenant.burst / ONE)
        owed = 1.0 + factors.debt / ONE * (tenant.debt / ONE)
        found[name] = max(int(tenant.class_weight / (slo * bursty) * owed), 1)
    return found


def grant(
    available: int,
    tenants: Mapping[str, Tenant],
    demand: Amounts,
    weight: Amounts,
    spec: PoolSpec,
    tier: Tier,
    here: Mapping[str, bool],
    times_ms: tuple[int, int],
) -> dict[str, Given]:
    """Floors first, then what is lent, then headroom; `times_ms`: the last decision and this."""
    floor, idle, lent, kept = _floors(available, tenants, demand, weight, spec, times_ms)
    unlent = {name: idle[name] - lent[name] for name in floor}
    free = max(available - sum(floor.values()) - sum(unlent.values()), 0)
    by_class = [action_of(terms, tier) for terms in spec.classes]
    action: dict[str, Action] = {name: by_class[each.rank] for name, each in tenants.items()}
    wanted, loan = {}, {}
    for name in floor:
        may = action[name] in ("none", "limit")
        wanted[name] = min(max(demand[name] - floor[name], 0), UNLIMITED) if may else 0
        loan[name] = min(kept[name], wanted[name])
    rest = free - sum(loan.values())
    more = share(rest, weight, {name: wanted[name] - loan[name] for name in floor})
    borrowed, granted, room = {}, {}, {}
    for name in floor:
        borrowed[name] = loan[name] + more[name]
        if action[name] == "limit":
            borrowed[name] //= 2
        held = here[name] and action[name] == "none"
        granted[name] = floor[name] + borrowed[name] + (unlent[name] if held else 0)
        room[name] = max(UNLIMITED - granted[name], 0) if held else 0
    rest = free - sum(borrowed.values())
    headroom = share(rest, weight, {name: min(each, rest) for name, each in room.items()})
    return {
        name: Given(
            floor[name],
            borrowed[name],
            0 if action[name] == "refuse" else granted[name] + headroom[name],
        )
        for name in floor
    }


def _floors(
    available: int,
    tenants: Mapping[str, Tenant],
    demand: Amounts,
    weight: Amounts,
    spec: PoolSpec,
    times_ms: tuple[int, int],
) -> tuple[Amounts, Amounts, Amounts, Amounts]:
    """Floors, what is reserved and idle, what of that is lent, and what borrowers keep."""
    dedicated = fit(available, _baselines(tenants, DEDICATED))
    guaranteed = fit(available - sum(dedicated.values()), _baselines(tenants, GUARANTEED))
    elastic = _baselines(tenants, ELASTIC)
    core, idle, lent = {}, {}, {}
    for name in tenants:
        core[name] = dedicated[name] + min(guaranteed[name], demand[name])
        idle[name] = dedicated[name] + guaranteed[name] - core[name]
        lent[name] = idle[name] * spec.alpha // ONE
    left = max(available - sum(core.values()) - sum(idle.values()) + sum(lent.values()), 0)
    asked = share(left, weight, {name: min(elastic[name], demand[name]) for name in tenants})
    asked, kept = _returned(left, tenants, demand, weight, asked, spec, times_ms)
    spare = {name: max(elastic[name] - demand[name], 0) for name in tenants}
    spare = fit(left - sum(asked.values()), spare)
    for name in tenants:
        core[name] += asked[name]
        idle[name] += spare[name]
        lent[name] += spare[name] * spec.alpha // ONE
    return core, idle, lent, kept


def _returned(
    left: int,
    tenants: Mapping[str, Tenant],
    demand: Amounts,
    weight: Amounts,
    asked: Amounts,
    spec: PoolSpec,
    times_ms: tuple[int, int],
) -> tuple[Amounts, Amounts]:
    """Elastic floors grow into what a reclaim takes from borrowers, and no faster."""
    before = {name: min(asked[name], each.given.floor) for name, each in tenants.items()}
    if asked == before:
        return asked, dict.fromkeys(tenants, 0)
    kept = {}
    for name, tenant in tenants.items():
        unmet = max(demand[name] - tenant.baseline, 0)
        kept[name] = min(_left(tenant, spec, *times_ms), unmet)
    kept = fit(left - sum(before.values()), kept)
    rest = left - sum(before.values()) - sum(kept.values())
    growth = share(rest, weight, {name: asked[name] - before[name] for name in tenants})
    return {name: before[name] + growth[name] for name in tenants}, kept


def _left(tenant: Tenant, spec: PoolSpec, before_ms: int, at_ms: int) -> int:
    if tenant.rank < ELASTIC:
        return 0
    borrowed, cool_down_ms = tenant.given.borrowed, spec.reclaim.cool_down_ms
    goes_on = tenant.lost_ms == before_ms > 0
    rests = at_ms - tenant.lost_ms < cool_down_ms and not goes_on
    if rests or at_ms - tenant.gained_ms < cool_down_ms:
        return borrowed
    return borrowed - borrowed * spec.reclaim.beta // ONE


def owe(tenants: Mapping[str, Tenant], demand: Amounts, given: Mapping[str, Given],
        spec: PoolSpec, at_ms: int) -> None:  # fmt: skip
    """Keep what the next decision needs: who lost and gained, debt, and what was given."""
    lost = [
        name
        for name, each in tenants.items()
        if each.given.borrowed > given[name].borrowed and demand[name] > given[name].grant
    ]
    gained = [name for name, each in tenants.items() if given[name].floor > each.given.floor]
    if lost and gained:
        for name in lost:
            tenants[name].lost_ms = at_ms
        for name in gained:
            tenants[name].gained_ms = at_ms
    for name, tenant in tenants.items():
        tenant.given, base = given[name], max(tenant.baseline, 1)
        served = min(tenant.given.grant, demand[name])
        short = max((min(demand[name], tenant.baseline) - served) * ONE // base, -100 * ONE)
        owed = max(smooth(tenant.debt, short, spec.debt_gain), 0)
        tenant.debt = owed if tenant.rank == ELASTIC and tenant.baseline else 0


def share(total: int, weights: Amounts, caps: Amounts) -> Amounts:
    """Weighted max-min: nobody gets more than its cap, what one leaves goes to the others."""
    if total <= 0:
        return dict.fromkeys(caps, 0)
    if sum(caps.values()) <= total:
        return caps
    given, left, among = dict.fromkeys(caps, 0), total, sum(weights[name] for name in caps)
    for name in sorted(caps, key=lambda each: caps[each] / weights[each]):
        given[name] = min(caps[name], left * weights[name] // among)
        left, among = left - given[name], among - weights[name]
    return given


def fit(available: int, amounts: Amounts) -> Amounts:
    """The amounts, or where they do not fit the same part of each."""
    total = sum(amounts.values())
    if total <= max(available, 0):
        return amounts
    return {name: amount * max(available, 0) // total for name, amount in amounts.items()}


def _baselines(tenants: Mapping[str, Tenant], rank: int) -> Amounts:
    return {name: each.baseline if each.rank == rank else 0 for name, each in tenants.items()}
