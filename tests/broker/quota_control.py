"""A control plane of the quota runs: reads the reports, gives leases and ceilings (PROTOCOL Q1).

It decides at boundaries of the log's own append times (T1, T2), renews a lease by L4, and leaves
sharing, tiers and floors that do not fit to the real one: every lease and floor is fixed.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.broker.quota_plane import Said, raised, returned
from tests.broker.quota_terms import CLASSES_OF, FLOOR, LEASE, LOADS, POOL, QUOTA, Terms
from tokenweir.records.control import ClassState, ControlDecision, GatewayLeases, Roster
from tokenweir.records.spec import CLASSES, TokenWeights
from tokenweir.records.usage import UsageReport

ONE = 1_000_000
SMOOTH = 0.4  # of what a gateway wants
STARTER = QUOTA // 100
WIDE = 10 * QUOTA  # tokens/s: of tenants with a quota the quota alone is the limit
Key = tuple[str, int]  # tenant, window


@dataclass
class Heard:
    """What the reports of one gateway say."""

    applied: int = 0
    closed: bool = False
    reported: bool = True  # since the last decision
    sequence: int = 0
    expires_ms: int = 0
    floor_expires_ms: int = 0
    spent: dict[Key, int] = field(default_factory=lambda: defaultdict(int))
    asked: dict[str, int] = field(default_factory=lambda: defaultdict(int))  # since the decision
    wanted: dict[str, float] = field(default_factory=lambda: defaultdict(float))  # tokens/s


class QuotaPlane:
    """The state of one pool; `take` folds a report and gives what is to be published first."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.heard: dict[str, Heard] = {}
        self.given: dict[Key, dict[str, int]] = defaultdict(dict)
        self.most: dict[Key, int] = defaultdict(int)  # that the ceilings ever added up to
        self.clock_ms = 0
        self.boundary_ms = 0

    def take(self, report: UsageReport, append_ms: int) -> list[Any]:
        """The records of a decision that became due, and then what this report says."""
        records = list(self._advance(append_ms))
        gateway = self.heard.setdefault(report.gateway, Heard())
        if report.sequence > gateway.sequence:
            gateway.sequence = report.sequence
            self._fold(gateway, report, append_ms)
            if gateway.closed:
                self._return(report.gateway, gateway)
        return records

    def _fold(self, gateway: Heard, report: UsageReport, append_ms: int) -> None:
        gateway.applied, gateway.closed = report.applied, report.closing
        gateway.reported = True
        totals = report.totals
        for row, place in enumerate(totals.tenant):
            tenant, age_ms = totals.names[place], _at(totals.age_ms, row)
            window = self.terms.window(append_ms - report.age_ms - age_ms)
            used = _at(totals.tokens_uncached, row)
            gateway.spent[tenant, window] += used
            gateway.asked[tenant] += used + _at(totals.refused_tokens, row)

    def _advance(self, append_ms: int) -> Iterator[Any]:
        self.clock_ms = max(self.clock_ms, append_ms)
        at_ms = self.clock_ms // self.terms.interval_ms * self.terms.interval_ms
        if self.boundary_ms == 0:
            yield _roster()
        if at_ms > self.boundary_ms and any(h.reported for h in self.heard.values()):
            yield from self._decide(at_ms)
        self.boundary_ms = at_ms

    def _decide(self, at_ms: int) -> Iterator[Any]:
        passed_s = max(at_ms - self.boundary_ms, self.terms.interval_ms) / 1000
        live = {n: h for n, h in self.heard.items() if h.reported and not h.closed}
        for gateway in live.values():
            for tenant in LOADS:
                rate = gateway.asked.pop(tenant, 0) / passed_s
                gateway.wanted[tenant] += SMOOTH * (rate - gateway.wanted[tenant])
        for window in self._windows(at_ms):
            for tenant in LOADS:
                said = {
                    name: Said(gateway.spent[tenant, window], int(gateway.wanted[tenant]))
                    for name, gateway in live.items()
                }
                given = self.given[tenant, window]
                given |= raised(QUOTA, given, said, self.terms.ahead_ms, STARTER)
                self.most[tenant, window] = max(self.most[tenant, window], sum(given.values()))
        for name, gateway in live.items():
            gateway.reported = False
            yield self._leases(name, gateway, at_ms)
        yield _decision(at_ms, self.terms.interval_ms)

    def _windows(self, at_ms: int) -> range:
        """The window that runs, and the next one a lease life ahead of its start."""
        return range(self.terms.window(at_ms), self.terms.window(at_ms + self.terms.lease_ms) + 1)

    def _return(self, name: str, gateway: Heard) -> None:
        running = self.terms.window(self.clock_ms)
        for (tenant, window), given in self.given.items():
            if window >= running:
                given |= returned(given, name, gateway.spent[tenant, window])

    def _leases(self, name: str, gateway: Heard, at_ms: int) -> GatewayLeases:
        terms = self.terms
        if gateway.applied == 0 or at_ms - gateway.applied < terms.lease_ms:  # L4
            gateway.expires_ms = at_ms + terms.lease_ms
            gateway.floor_expires_ms = at_ms + terms.floor_ms
        rows = [
            (tenant, window, self.given[tenant, window].get(name, 0))
            for tenant in LOADS
            for window in self._windows(at_ms)
        ]
        tenants = [*LOADS, *CLASSES_OF]
        rates = [(WIDE if name in LOADS else LEASE) * 1000 for name in tenants]
        return GatewayLeases(
            pool=POOL,
            gateway=name,
            part=0,
            parts=1,
            at_ms=at_ms,
            expires_ms=gateway.expires_ms,
            floor_expires_ms=gateway.floor_expires_ms,
            pot_rate=0,
            pot_burst=0,
            tenant=tenants,
            rate=rates,
            burst=rates,
            floor=[0 if name == "spo" else FLOOR * 1000 for name in tenants],
            sequences=[-1] * len(tenants),
            kv_bytes=[-1] * len(tenants),
            ceiling_tenant=[row[0] for row in rows],
            ceiling_user=[""] * len(rows),
            ceiling_window_id=[f"w{row[1]}" for row in rows],
            ceiling_starts_ms=[row[1] * terms.window_ms for row in rows],
            ceiling_ends_ms=[(row[1] + 1) * terms.window_ms for row in rows],
            ceiling_tokens=[row[2] for row in rows],
        )


def _at(column: Any, row: int) -> int:
    """An empty column says that all of its values are 0."""
    return int(column[row]) if column else 0


def _roster() -> Roster:
    tenants = {**dict.fromkeys(LOADS, "elastic"), **CLASSES_OF}
    return Roster(POOL, 1, list(tenants), list(tenants.values()), [None] * len(tenants))  # type: ignore[arg-type]


def _decision(at_ms: int, interval_ms: int) -> ControlDecision:
    return ControlDecision(
        pool=POOL,
        at_ms=at_ms,
        id=f"{POOL}@{at_ms}",
        spec_version=1,
        mode="enforce",
        interval_ms=interval_ms,
        longest_request_ms=600_000,
        tier="normal",
        breaker="closed",
        breaker_refuses="borrowers",
        probe_rate=0,
        level=0,
        level_now=0,
        lent=0,
        alpha=0,
        capacity=WIDE * 1000,
        granted=WIDE * 1000,
        priority_threshold="preemptible",
        parts=1,
        token_weights=TokenWeights(ONE, ONE, ONE),
        classes=[
            ClassState(name, "none", 0, 0, "refuse" if name == "spot" else "floor")
            for name in CLASSES
        ],
        unknown_class="spot",
    )
