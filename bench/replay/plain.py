"""The peer: a record a request, folded one by one in plain Python, and decided every second.

Dicts and whole numbers, no NumPy. It keeps what the core keeps for such a log (totals, window,
gauges, smoothed rates, debt, unconfirmed leases) and takes the decision's main steps; what this log
never touches (quotas, capacity changes, breaker, tuning) is left out, to its advantage. The figures
that it is decided on must come out as the core's: `bench.replay` compares them.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from tokenweir.core.fold import COLUMNS, HIGHEST, LOWEST
from tokenweir.records.spec import PoolSpec
from tokenweir.records.usage import UsageReport
from tokenweir.usage_log import Message
from tokenweir.wire import decode

ONE = 1_000_000
BOUNDS = [
    (name, low, high)
    for name, low, high in zip(COLUMNS, LOWEST[:, 0].tolist(), HIGHEST[:, 0].tolist(), strict=True)
]
GAUGES = COLUMNS[-6:]


@dataclass(slots=True)
class Gateway:
    """What is known of one gateway, by tenant."""

    sequence: int = 0
    applied: int = 0
    spent: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    refused: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    demand: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    gauges: dict[str, list[int]] = field(default_factory=dict)
    issued: list[tuple[int, dict[str, int]]] = field(default_factory=list)


@dataclass(slots=True)
class Tenant:
    """What is known of one tenant."""

    baseline: int
    weight: int
    totals: list[int] = field(default_factory=lambda: [0] * 9)
    window: dict[int, int] = field(default_factory=lambda: defaultdict(int))  # by second
    rate: int = 0
    wait: int = 0
    waits: int = 0
    burst: int = 0
    debt: int = 0


class Plain:
    """One pool; `figures` are those of each decision: spent, demand, used and rate by tenant."""

    def __init__(self) -> None:
        self.spec: PoolSpec | None = None
        self.boundary_ms = self.clock_ms = 0
        self.tenants: dict[str, Tenant] = {}
        self.gateways: dict[str, Gateway] = defaultdict(Gateway)
        self.figures: list[dict[str, tuple[int, int, int, int]]] = []

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
        for claim in spec.entitlements:
            self.tenants[claim.tenant] = Tenant(claim.baseline, spec.classes[0].weight)

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
        gateway.sequence, gateway.applied = report.sequence, max(gateway.applied, report.applied)
        gateway.issued = [issue for issue in gateway.issued if issue[0] >= gateway.applied]
        for row, place in enumerate(totals.tenant):
            self._row(gateway, totals.names[place], table, row, append_ms - report.age_ms)

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
        if event_ms // 1000 > self.clock_ms // 1000 - 72:
            tenant.window[event_ms // 1000] += charged
        if event_ms > self.boundary_ms - 2000:
            gateway.spent[name] += max(charged, 0)
            gateway.refused[name] += refused
            tenant.waits += table["wait_ms"][row]
        gateway.gauges[name] = [table[gauge][row] for gauge in GAUGES]

    def decide(self, at_ms: int) -> None:
        """Measure, weigh, share, lease."""
        assert self.spec is not None
        demand, figures = {}, {}
        last = (at_ms - 1) // 1000
        for name, tenant in self.tenants.items():
            spent = sum(gateway.spent.get(name, 0) for gateway in self.gateways.values())
            asked = smoothed = 0
            for gateway in self.gateways.values():
                wanted = gateway.spent.get(name, 0) + gateway.refused.get(name, 0)
                wanted += gateway.gauges.get(name, [0] * 6)[5]
                asked += wanted
                gateway.demand[name] = _smooth(gateway.demand[name], wanted * 1000, self.spec.ewma)
                smoothed += gateway.demand[name]
            demand[name] = max(asked * 1000, smoothed)
            self._tally(tenant, spent)
            used = sum(tenant.window.get(second, 0) for second in range(last - 59, last + 1))
            tenant.window.pop(last - 71, None)
            figures[name] = (spent, demand[name], used, tenant.rate)
        self.figures.append(figures)
        self._lease(self._grant(demand), at_ms)
        for gateway in self.gateways.values():
            gateway.spent.clear()
            gateway.refused.clear()
        self.boundary_ms = at_ms

    def _tally(self, tenant: Tenant, spent: int) -> None:
        assert self.spec is not None
        gain, rate = self.spec.ewma, spent * 1000
        tenant.rate = _smooth(tenant.rate, rate, gain)
        tenant.wait, tenant.waits = _smooth(tenant.wait, tenant.waits, gain), 0
        excess = max(rate - tenant.baseline, 0) * ONE // max(tenant.baseline, 1)
        tenant.burst = _smooth(tenant.burst, excess, gain)

    def _grant(self, demand: dict[str, int]) -> dict[str, int]:
        assert self.spec is not None
        capacity = self.spec.capacity.tokens_per_s
        available = capacity * (self.spec.ceiling - self.spec.pots) // ONE
        weight = {
            name: max(
                tenant.weight * ONE // (ONE + tenant.burst // 10) * (ONE + 4 * tenant.debt), 1
            )
            for name, tenant in self.tenants.items()
        }
        grant = {name: min(each.baseline, demand[name]) for name, each in self.tenants.items()}
        unmet = {name: max(demand[name] - grant[name], 0) for name in grant}
        for name, more in share(available - sum(grant.values()), weight, unmet).items():
            grant[name] += more
        rest = available - sum(grant.values())
        for name, more in share(rest, weight, dict.fromkeys(grant, rest)).items():
            grant[name] += more
        for name, tenant in self.tenants.items():
            served = min(grant[name], demand[name])
            short = (min(demand[name], tenant.baseline) - served) * ONE // max(tenant.baseline, 1)
            tenant.debt = max(_smooth(tenant.debt, short, self.spec.debt_gain), 0)
        return grant

    def _lease(self, grant: dict[str, int], at_ms: int) -> None:
        """Split each grant by demand; nothing is given that another gateway may still use."""
        gateways = list(self.gateways.values())
        for name, amount in grant.items():
            held = [max((rates.get(name, 0) for _, rates in g.issued), default=0) for g in gateways]
            total = sum(gateway.demand[name] for gateway in gateways)
            free = max(amount - sum(held), 0)
            for gateway, has in zip(gateways, held, strict=True):
                part = gateway.demand[name] if total else 1
                wanted = amount * part // (total or len(gateways))
                more = min(max(wanted - has, 0), free)
                free -= more
                if not gateway.issued or gateway.issued[-1][0] != at_ms:
                    gateway.issued = [*gateway.issued[-7:], (at_ms, {})]
                gateway.issued[-1][1][name] = min(wanted, has + more)


def share(total: int, weights: dict[str, int], caps: dict[str, int]) -> dict[str, int]:
    """Weighted max-min: nobody gets more than its cap, what one leaves goes to the others."""
    given, left, among = dict.fromkeys(caps, 0), max(total, 0), sum(weights.values())
    for name in sorted(caps, key=lambda each: caps[each] / weights[each]):
        given[name] = min(caps[name], left * weights[name] // among)
        left, among = left - given[name], among - weights[name]
    return given


def _smooth(before: int, now: int, gain: int) -> int:
    return (before * (ONE - gain) + now * gain) // ONE


def fold(messages: Iterable[Message]) -> Plain:
    """The whole log."""
    plain = Plain()
    for message in messages:
        plain.take(message)
    return plain
