"""Leases in plain Python: grants split over gateways, giving only what is not given already."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bench.replay.policy import Amounts, share

POT = ""  # the starter pots, which are leases like any other


@dataclass(frozen=True, slots=True)
class Issue:
    """What one decision gave to one gateway, by tenant."""

    at_ms: int
    expires_ms: int
    floor_expires_ms: int
    rates: Amounts
    floors: Amounts


@dataclass(slots=True)
class Gateway:
    """What is known of one gateway, by tenant."""

    sequence: int = 0
    missing: int = 0
    first_ms: int = 0
    applied_ms: int = 0
    reported: bool = False
    more: bool = False
    spent: Amounts = field(default_factory=lambda: defaultdict(int))
    refused: Amounts = field(default_factory=lambda: defaultdict(int))
    demand: Amounts = field(default_factory=lambda: defaultdict(int))  # smoothed
    held: Amounts = field(default_factory=dict)  # at the last decision
    gauges: dict[str, list[int]] = field(default_factory=dict)
    filling: dict[str, list[int]] = field(default_factory=dict)
    issued: list[Issue] = field(default_factory=list)


def lease(
    gateways: Sequence[Gateway],
    most: Amounts,
    floors: Amounts,
    weight: Amounts,
    rank: Mapping[str, int],
    ceiling: int,
    at_ms: int,
    lives_ms: tuple[int, int],
) -> Amounts:
    """Issue leases for `most`, of which `floors` outlive them; what all may use afterwards."""
    live = [
        each.reported and at_ms - max(each.applied_ms, each.first_ms) < lives_ms[0]
        for each in gateways
    ]
    held = [_held(gateway, at_ms) for gateway in gateways]
    keys = [
        {name: (each.demand.get(name, 0) if name else 1) for name in most} if is_live else {}
        for each, is_live in zip(gateways, live, strict=True)
    ]
    wanted = _split(most, keys)
    held_rates = [rates for rates, _ in held]
    free = max(ceiling - sum(sum(rates.values()) for rates in held_rates), 0)
    rates = _grown(most, wanted, held_rates, free, weight, rank)
    total = {name: sum(each[name] for each in rates) for name in floors}
    lasting = {name: min(floor, total[name]) for name, floor in floors.items()}
    parts = _split(lasting, rates)
    parts = [
        {name: min(part, each[name]) for name, part in own.items()}
        for own, each in zip(parts, rates, strict=True)
    ]
    kept = _grown(floors, parts, [own for _, own in held], sum(floors.values()), weight, rank)
    for gateway, is_live, own, lasts in zip(gateways, live, rates, kept, strict=True):
        if is_live:
            lasts = {name: min(floor, own[name]) for name, floor in lasts.items()}
            expires_ms, floor_expires_ms = (at_ms + life_ms for life_ms in lives_ms)
            gateway.issued.append(Issue(at_ms, expires_ms, floor_expires_ms, own, lasts))
    after = [*zip(held_rates, rates, strict=True)]
    return {name: sum(max(has.get(name, 0), own[name]) for has, own in after) for name in most}


def _held(gateway: Gateway, at_ms: int) -> tuple[Amounts, Amounts]:
    """The most that a gateway may use by what it was issued, and of it what outlives the lease."""
    issued, rates, floors = gateway.issued, dict[str, int](), dict[str, int]()
    if any(at_ms < issue.floor_expires_ms for issue in issued):
        for issue in issued:
            for name, floor in issue.floors.items():
                floors[name] = max(floors.get(name, 0), floor)
    rates.update(floors)
    if any(at_ms < issue.expires_ms for issue in issued):
        for issue in issued:
            for name, rate in issue.rates.items():
                rates[name] = max(rates.get(name, 0), rate)
    return rates, floors


def _grown(
    most: Amounts,
    wanted: Sequence[Amounts],
    held: Sequence[Amounts],
    free: int,
    weight: Amounts,
    rank: Mapping[str, int],
) -> list[Amounts]:
    """What is wanted and held already, and more where nobody else may still use it."""
    more = [
        {name: max(part - has.get(name, 0), 0) for name, part in own.items()}
        for own, has in zip(wanted, held, strict=True)
    ]
    growth = {}
    for name, amount in most.items():
        asked = sum(own[name] for own in more)
        given = sum(has.get(name, 0) for has in held)
        growth[name] = min(asked, max(amount - given, 0))
    if sum(growth.values()) > free:
        growth = _by_class(growth, free, weight, rank)
    grown = _split(growth, more)
    return [
        {
            name: min(part, has.get(name, 0)) + (added[name] if growth[name] else 0)
            for name, part in own.items()
        }
        for own, has, added in zip(wanted, held, grown, strict=True)
    ]


def _by_class(
    growth: Amounts, free: int, weight: Amounts, rank: Mapping[str, int]
) -> Amounts:  # fmt: skip
    """The pots first, then the classes from the highest down, by weight inside a class."""
    given: Amounts = {}
    for level in range(5, -1, -1):
        inside = {name: amount for name, amount in growth.items() if rank[name] == level}
        part = share(free, weight, inside)
        given.update(part)
        free -= sum(part.values())
    return given


def _split(amounts: Amounts, keys: Sequence[Amounts]) -> list[Amounts]:
    """Split each amount in proportion to the keys; equally where all are 0."""
    parts: list[Amounts] = [{} for _ in keys]
    for name, amount in amounts.items():
        own = [each.get(name, 0) for each in keys]
        total = sum(own)
        if not total:
            own, total = [1] * len(own), len(own)
        upto = before = 0
        for part, key in zip(parts, own, strict=True):
            upto += key
            edge = amount * upto // total
            part[name] = edge - before
            before = edge
    return parts
