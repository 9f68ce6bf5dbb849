"""The spec of the quota runs, and what a control worker makes of it, looked at from outside."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from tests.broker.quota_terms import (
    CAPACITY,
    CLASSES_OF,
    FLOOR,
    FLOORS,
    GATEWAYS,
    LEAST,
    LOADS,
    MOST,
    POOL,
    QUOTA,
    Terms,
)
from tests.pools import spec, tenant
from tokenweir.core.quota.calendar import window
from tokenweir.records.control import GatewayLeases
from tokenweir.records.spec import PoolSpec, Quota
from tokenweir.records.usage import UsageReport
from tokenweir.spec.zones import zone_of

UTC = zone_of("UTC")


def rules(terms: Terms) -> PoolSpec:
    """Four tenants with a quota a minute, and one of each class without."""
    quota = Quota("minute", "UTC", QUOTA, 0, False, False)
    return spec(
        *(tenant(name, "elastic", quotas=[quota]) for name in LOADS),
        *(
            tenant(name, of, 0 if of == "spot" else FLOOR * GATEWAYS)
            for name, of in CLASSES_OF.items()
        ),
        capacity=CAPACITY,
        interval_ms=terms.interval_ms,
        lease_ms=terms.lease_ms,
        floor_ms=terms.floor_ms,
        pool=POOL,
        pots=0.02,
        zones=(UTC,),
    )


def window_id(unix_ms: int) -> str:
    """The quota's window in which a moment lies."""
    return window("minute", UTC, unix_ms).id


@dataclass
class Heard:
    """What the reports of one gateway say."""

    applied: int = 0
    closed: bool = False
    sequence: int = 0


@dataclass
class Watch:
    """What lies in the topics: reports, ceilings by tenant and window, and floors."""

    heard: dict[str, Heard] = field(default_factory=dict)
    told: dict[str, int] = field(default_factory=lambda: defaultdict(int))  # tokens by tenant
    given: dict[tuple[str, str], dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    most: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    floors: dict[str, dict[int, dict[str, float]]] = field(
        default_factory=lambda: defaultdict(dict)
    )  # tokens/s by tenant, of each decision, by gateway
    expiries: dict[str, dict[int, int]] = field(
        default_factory=lambda: defaultdict(dict)
    )  # of the leases of each decision, by gateway

    def see(self, record: Any) -> None:
        """Note a record, whichever topic it is from."""
        match record:
            case UsageReport():
                self._report(record)
            case GatewayLeases():
                self._leases(record)

    def held(self, gateway: str) -> dict[str, tuple[float, float]]:
        """The least and the most that each tenant's floor may be at a gateway now (L2)."""
        applied = self.heard[gateway].applied
        since = [each for at_ms, each in self.floors[gateway].items() if at_ms >= applied]
        names = {name for floors in since for name in floors}
        every = {name: [floors.get(name, 0.0) for floors in since] for name in names}
        return {name: (min(floors), max(floors)) for name, floors in every.items()}

    def mended(self, gateway: str, since_ms: int) -> bool:
        """It obeys leases given since then, not old ones told again (L4), and floors as ever."""
        applied = self.heard[gateway].applied
        is_new = applied > since_ms and self.expiries[gateway].get(applied, 0) > applied
        held = [self.held(gateway).get(name, (0.0, 0.0)) for name in FLOORS]
        return is_new and all(LEAST <= least <= most <= MOST for least, most in held)

    def _report(self, report: UsageReport) -> None:
        gateway = self.heard.setdefault(report.gateway, Heard())
        if report.sequence <= gateway.sequence:
            return
        gateway.sequence = report.sequence
        gateway.applied, gateway.closed = report.applied, report.closing
        totals = report.totals
        for row, place in enumerate(totals.tenant):
            used = totals.tokens_uncached[row] if totals.tokens_uncached else 0
            self.told[totals.names[place]] += used
        if gateway.closed:  # what it left is free again
            for given in self.given.values():
                given.pop(report.gateway, None)

    def _leases(self, leases: GatewayLeases) -> None:
        floors = (floor / 1000 for floor in leases.floor)
        found = dict(zip(leases.tenant, floors, strict=True))
        self.floors[leases.gateway][leases.at_ms] = found
        self.expiries[leases.gateway][leases.at_ms] = leases.expires_ms
        columns = (leases.ceiling_tenant, leases.ceiling_window_id, leases.ceiling_tokens)
        for name, id, tokens in zip(*columns, strict=True):
            given = self.given[name, id]
            assert tokens >= given.get(leases.gateway, 0), "ceilings only rise"
            given[leases.gateway] = tokens
            self.most[name, id] = max(self.most[name, id], sum(given.values()))
