"""The peer: a record a request, folded one by one in plain Python, and decided every second.

Dicts, loops and whole numbers, no NumPy. Per record it decodes, checks and counts what the core
counts for this log: totals, window, gauges, demand. A decision takes the core's steps: smoothed
figures by tenant and gateway, levels and tier, weights, debt, floors by class, what is lent and
borrowed (`policy.py`), and leases with their floors split over the gateways without giving anything
twice (`leasing.py`). Left out, to its advantage, is what this log never needs: quotas, limits of
sequences and KV bytes, changes of spec and capacity, tuning, revoked work, gateways that fall
silent, and the records themselves: it writes and compares no journal.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from bench.replay.leasing import POT, Gateway, lease
from bench.replay.policy import Given, Tenant, grant, owe, smooth, weigh
from tokenweir.core.breaker import CLOSED, BreakerState, Pressure, next_breaker
from tokenweir.core.fold import COLUMNS, HIGHEST, LOWEST
from tokenweir.core.pool import NORMAL
from tokenweir.core.tier import TierState, next_tier
from tokenweir.records.control import Tier
from tokenweir.records.spec import RANK, PoolSpec
from tokenweir.records.usage import UsageReport
from tokenweir.usage_log import Message
from tokenweir.wire import decode

ONE = 1_000_000
BOUNDS = [
    (name, low, high)
    for name, low, high in zip(COLUMNS, LOWEST[:, 0].tolist(), HIGHEST[:, 0].tolist(), strict=True)
]
GAUGES = COLUMNS[-6:]
NONE = [0] * len(GAUGES)


@dataclass(frozen=True, slots=True)
class Decided:
    """The figures of one tenant in one decision; rates in milli-tokens/s."""

    spent: int
    demand: int
    used: int
    rate: int
    debt: int
    weight: int
    given: Given
    leased: int


@dataclass(slots=True)
class Plain:
    """One pool; `decided` has the figures of each decision, by tenant."""

    spec: PoolSpec | None = None
    boundary_ms: int = 0
    clock_ms: int = 0
    level: int = 0
    total: int = 0
    ended: int = 0
    failed: int = 0
    tier: TierState = NORMAL
    breaker: BreakerState = CLOSED
    tenants: dict[str, Tenant] = field(default_factory=dict)
    gateways: dict[str, Gateway] = field(default_factory=lambda: defaultdict(Gateway))
    budget: dict[int, int] = field(default_factory=lambda: defaultdict(int))  # by second
    decided: list[dict[str, Decided]] = field(default_factory=list)

    def take(self, message: Message) -> None:
        """Move the time, decide if a second is full, fold the record."""
        record = decode(message.value)
        self.clock_ms = max(self.clock_ms, message.append_ms)
        newest = self.clock_ms // 1000 * 1000
        if self.spec is not None and newest > self.boundary_ms:
            self.decide(newest)
        if isinstance(record, UsageReport):
            self.fold(record, message.append_ms)
        else:
            self._begin(record)

    def _begin(self, spec: PoolSpec) -> None:
        self.spec, self.boundary_ms = spec, self.clock_ms // 1000 * 1000
        weights = {terms.service_class: terms.weight for terms in spec.classes}
        for claim in spec.entitlements:
            rank = RANK[claim.service_class]
            baseline = claim.baseline if rank >= RANK["elastic"] else 0
            self.tenants[claim.tenant] = Tenant(
                rank, baseline, weights[claim.service_class], claim.slo_ms
            )

    def fold(self, report: UsageReport, append_ms: int) -> None:
        """Count one record."""
        gateway, totals = self.gateways[report.gateway], report.totals
        rows = len(totals.tenant)
        table = {}
        for name, low, high in BOUNDS:
            values = getattr(totals, name) or [0] * rows
            for value in values:
                if not low <= value <= high:
                    raise ValueError(name)
            table[name] = values
        if report.sequence <= gateway.sequence:
            return
        gateway.missing += report.sequence - gateway.sequence - 1
        gateway.sequence, gateway.reported = report.sequence, True
        gateway.first_ms = gateway.first_ms or self.clock_ms
        gateway.applied_ms = max(gateway.applied_ms, report.applied)
        if gateway.issued and gateway.issued[0].at_ms < gateway.applied_ms:
            gateway.issued = [
                issue for issue in gateway.issued if issue.at_ms >= gateway.applied_ms
            ]
        if not gateway.more:
            gateway.filling = {}
        for row, place in enumerate(totals.tenant):
            self._row(gateway, totals.names[place], table, row, append_ms - report.age_ms)
        gateway.more = report.more
        if not report.more:
            gateway.gauges = gateway.filling

    def _row(
        self, gateway: Gateway, name: str, table: dict[str, list[int]], row: int, cut_ms: int
    ) -> None:
        tenant = self.tenants[name]
        uncached, cached = table["tokens_uncached"][row], table["tokens_cached"][row]
        out, refused = table["tokens_out"][row], table["refused_tokens"][row]
        charged = uncached + cached + out
        counts = (
            table["requests"][row], table["errors"][row], uncached, cached, out, charged,
            table["refused"][row], refused, table["wait_ms"][row],
        )  # fmt: skip
        for column, value in enumerate(counts):
            tenant.totals[column] += value
        event_ms = min(cut_ms - table["age_ms"][row], self.clock_ms)
        second = event_ms // 1000
        if second > self.clock_ms // 1000 - 72:
            tenant.window[second] = tenant.window.get(second, 0) + charged
        if event_ms > self.boundary_ms - 2000:
            gateway.spent[name] += max(charged, 0)
            gateway.refused[name] += refused
            tenant.refused += table["refused"][row]
            tenant.waits += table["wait_ms"][row]
            tenant.ended += table["requests"][row]
            tenant.failed += table["errors"][row]
        before = gateway.filling.get(name, NONE)
        gateway.filling[name] = [
            has + table[gauge][row] for has, gauge in zip(before, GAUGES, strict=True)
        ]

    def decide(self, at_ms: int) -> None:
        """Measure, weigh, share, lease."""
        assert self.spec is not None
        spec, capacity = self.spec, self.spec.capacity.tokens_per_s
        spent, demand = self._demand(spec)
        used = self._used(at_ms, spec)
        tier = self._tier(at_ms, spec, used)
        weight = weigh(self.tenants, spec)
        here = {name: demand[name] > 0 or used[name] > 0 for name in demand}
        ceiling, pots = capacity * spec.ceiling // ONE, capacity * spec.pots // ONE
        times_ms = self.boundary_ms, at_ms
        given = grant(
            ceiling - pots, self.tenants, demand, weight, spec, tier, here, times_ms
        )  # fmt: skip
        leased = self._lease(given, weight, ceiling, pots, at_ms)
        owe(self.tenants, demand, given, spec, at_ms)
        self.decided.append(
            {
                name: Decided(
                    spent[name], demand[name], used[name], each.rate, each.debt, weight[name],
                    given[name], leased[name],
                )
                for name, each in self.tenants.items()
            }
        )  # fmt: skip
        self.boundary_ms = at_ms

    def _demand(self, spec: PoolSpec) -> tuple[dict[str, int], dict[str, int]]:
        """What was spent and is asked for; the interval is closed."""
        total, demand = {}, {}
        for name, tenant in self.tenants.items():
            spent = asked = smoothed = sequences = 0
            for gateway in self.gateways.values():
                gauges, own = gateway.gauges.get(name, NONE), gateway.spent.get(name, 0)
                wanted = own + gateway.refused.get(name, 0) + gauges[5]
                spent += own
                asked += wanted + max(gauges[3] - gateway.held.get(name, 0), 0)
                sequences += gauges[1] + gauges[4]
                gateway.demand[name] = smooth(gateway.demand[name], wanted * 1000, spec.ewma)
                smoothed += gateway.demand[name]
                gateway.held[name] = gauges[3]
            demand[name] = max(asked * 1000, smoothed)
            total[name] = spent
            self._tally(tenant, spent, sequences, spec)
        for gateway in self.gateways.values():
            gateway.spent.clear()
            gateway.refused.clear()
        return total, demand

    def _tally(self, tenant: Tenant, spent: int, sequences: int, spec: PoolSpec) -> None:
        gain, rate = spec.ewma, spent * 1000
        base = max(tenant.baseline or spec.capacity.tokens_per_s, 1)
        tenant.rate = smooth(tenant.rate, rate, gain)
        tenant.refusals = smooth(tenant.refusals, tenant.refused * 1000, gain)
        tenant.wait = smooth(tenant.wait, tenant.waits, gain)
        tenant.burst = smooth(tenant.burst, max(rate - tenant.baseline, 0) * ONE // base, gain)
        tenant.sequences = smooth(tenant.sequences, (sequences + tenant.refused) * 1000, gain)

    def _used(self, at_ms: int, spec: PoolSpec) -> dict[str, int]:
        """Charged tokens of each tenant over the window."""
        last = (at_ms - 1) // 1000
        first, used = last - spec.window_s + 1, {}
        for name, tenant in self.tenants.items():
            found = 0
            for second in range(first, last + 1):
                found += tenant.window.get(second, 0)
            tenant.window.pop(first - spec.grace_s - 2, None)
            used[name] = max(found, 0)
        return used

    def _tier(self, at_ms: int, spec: PoolSpec, used: dict[str, int]) -> Tier:
        """Levels, smoothed, and what follows from them."""
        last = (at_ms - 1) // 1000
        self.budget[last] += spec.capacity.tokens_per_s // 1000 * (at_ms - self.boundary_ms)
        seconds = range(last - spec.window_s + 1, last + 1)
        budget = sum(self.budget.get(second, 0) for second in seconds) // 1000
        firm = sum(used[name] for name, each in self.tenants.items() if each.baseline)
        self.level = smooth(self.level, firm * ONE // max(budget, 1), spec.ewma)
        self.total = smooth(self.total, sum(used.values()) * ONE // max(budget, 1), spec.ewma)
        failed, ended = (
            sum(getattr(each, name) for each in self.tenants.values())
            for name in ("failed", "ended")
        )
        self.ended = smooth(self.ended, ended * 1000, spec.ewma)
        self.failed = smooth(self.failed, failed * 1000, spec.ewma)
        for tenant in self.tenants.values():
            tenant.refused = tenant.waits = tenant.ended = tenant.failed = 0
        self.tier = next_tier(self.tier, self.level, spec.tiers, at_ms)
        errors = min(self.failed * ONE // max(self.ended, 1), ONE)
        pressure = Pressure(self.total, errors)
        self.breaker = next_breaker(self.breaker, pressure, spec.breaker, spec.tiers, at_ms)
        return self.tier.tier

    def _lease(
        self, given: dict[str, Given], weight: dict[str, int], ceiling: int, pots: int, at_ms: int
    ) -> dict[str, int]:
        assert self.spec is not None
        gateways = [self.gateways[name] for name in sorted(self.gateways)]
        most = {name: each.grant for name, each in given.items()} | {POT: pots}
        leased = lease(
            gateways,
            most,
            {name: tenant.baseline for name, tenant in self.tenants.items()},
            weight | {POT: 1},
            {name: tenant.rank for name, tenant in self.tenants.items()} | {POT: 5},
            ceiling,
            at_ms,
            (self.spec.lease_ms, self.spec.floor_ms),
        )
        for gateway in gateways:
            gateway.reported = False
        return leased


def figures(one: Decided) -> tuple[int, ...]:
    """In the order in which they are compared with the core's."""
    given = one.given
    measured = one.spent, one.demand, one.used, one.rate, one.debt, one.weight
    return (*measured, given.floor, given.borrowed, given.grant, one.leased)


def fold(messages: Iterable[Message]) -> Plain:
    """The whole log."""
    plain = Plain()
    for message in messages:
        plain.take(message)
    return plain
