"""Random runs of one pool and its gateways over a network that loses, delays and repeats.

After every event the promise is checked: what the gateways may spend together is within the
capacity. Nothing sleeps; time is a number, and a seed tells the whole run.
"""

import heapq
import random
from collections.abc import Callable
from dataclasses import replace

from tests.pools import START, pool_with, report, spec, tenant
from tests.property.floors import Floors
from tests.property.gateways import Clock, ControlRecord, ModelGateway, Spending
from tokenweir.core.pool import Pool
from tokenweir.core.step import Decided, advance, fold
from tokenweir.records.control import GatewayLeases
from tokenweir.records.journal import DecisionEntry
from tokenweir.records.spec import UNKNOWN, PoolSpec, TuningTerms
from tokenweir.records.usage import CapacityReport, UsageReport
from tokenweir.rows import from_rows, to_rows

LEASE_MS, FLOOR_MS, LONGEST_MS = 5_000, 40_000, 8_000
CAPACITY, SEQUENCES = 10_000, 300
TENANTS = ("core", "firm", "soft", "spare", "low")
SPEC = replace(
    spec(
        tenant("core", "dedicated", 1_500),
        tenant("firm", "guaranteed", 2_500),
        tenant("soft", "elastic", 2_000),
        tenant("spare", "spot"),
        tenant("low", "preemptible"),
        capacity=CAPACITY,
        lease_ms=LEASE_MS,
        floor_ms=FLOOR_MS,
        sequences=SEQUENCES,
        tuning=TuningTerms(10_000, 20_000, 0, 950_000, 2_000_000),
    ),
    longest_request_ms=LONGEST_MS,
)


class Exceeded(AssertionError):
    """The gateways may spend more than the promise says."""


class World:
    """One pool, up to four gateways, and all that is on its way between them."""

    def __init__(
        self, seed: int, clock: Callable[[], Clock] = Clock, *, accounts: bool = True
    ) -> None:
        self.random = random.Random(seed)
        self.seed, self.clock, self.accounts = seed, clock, accounts
        self.now = START
        self.pool: Pool = pool_with(SPEC, START)
        self.spec: PoolSpec = SPEC
        self.capacities = [(START - FLOOR_MS, CAPACITY * 1000)]  # since when, milli-tokens/s
        self.sequences = [(START - FLOOR_MS, SEQUENCES)]
        self.most_running = 0
        self.leased: dict[str, int] = {}
        self.floors = Floors()
        self.given = 0
        self.gateways: dict[str, ModelGateway] = {}
        self.appetite: dict[str, dict[str, int]] = {}
        self.retained: dict[tuple[str, str, int], ControlRecord] = {}
        self.events: list[tuple[int, int, Callable[[], None]]] = []
        self.count = self.decisions = self.born = self.most = 0
        for _ in range(4):
            self._join()
        self._after(1_000, 3_000, self._strike)

    def run(self, steps: int) -> None:
        """So many events; raises `Exceeded` at the first moment at which the promise is broken."""
        for _ in range(steps):
            self.now, _, event = heapq.heappop(self.events)
            event()
            self._check()

    def _after(self, least: int, most: int, event: Callable[[], None]) -> None:
        self.count += 1
        heapq.heappush(
            self.events, (self.now + self.random.randint(least, most), self.count, event)
        )

    # What gateways do.

    def _join(self) -> None:
        self.born += 1
        gateway = ModelGateway(f"g{self.born}", self.clock())
        self.gateways[gateway.name] = gateway
        self.appetite[gateway.name] = {}
        self._catch_up(gateway)
        self._after(0, 500, lambda: self._flush(gateway))

    def _flush(self, gateway: ModelGateway) -> None:
        """Report, each half interval; what is in flight first, for as long as it takes (R1)."""
        if gateway.name not in self.gateways:
            return
        if gateway.pending is None:
            gateway.sequence += 1
            gateway.pending, gateway.cut_ms = self._report(gateway), self.now
        sent, pending = self.now, replace(gateway.pending, age_ms=self.now - gateway.cut_ms)
        if gateway.writes and self.random.random() < 0.95:
            self._after(1, 150, lambda: self._append(gateway, pending, sent))
        self._after(300, 500, lambda: self._flush(gateway))

    def _report(self, gateway: ModelGateway) -> UsageReport:
        wants = self.appetite[gateway.name]
        if self.random.random() < 0.05 or not wants:
            for name in TENANTS:
                wants[name] = self.random.choice((0, 0, 200, 1_000, 4_000))
        took = {name: self.random.randint(0, most // 4) for name, most in wants.items() if most}
        short = {name: most for name, most in wants.items() if self.random.random() < 0.3}
        gateway.end(self.now)
        if gateway.closed:
            gateway.running.clear()
        starts = {name: self.random.choice((0, 1, 5, 60)) for name in TENANTS}
        gateway.start(starts, self.now + self.random.randint(1, LONGEST_MS), self.now)
        return report(
            gateway.name,
            gateway.sequence,
            took,
            refused=short,
            sequences={name: len(ends) for name, ends in gateway.running.items() if ends},
            applied=gateway.applied,
            closing=gateway.closed,
        )

    def _append(self, gateway: ModelGateway, pending: UsageReport, sent: int) -> None:
        """The report is in the log, now; its acknowledgement may be slow, or lost."""
        self._fold(pending)
        append = self.now
        if gateway.writes and self.random.random() < 0.9:
            slow = self.random.random() < 0.2
            self._after(1, 6_000 if slow else 60, lambda: self._ack(gateway, pending, append, sent))

    def _ack(self, gateway: ModelGateway, pending: UsageReport, append: int, sent: int) -> None:
        gateway.clock.acknowledged(append, sent, self.now)
        if gateway.pending is not None and gateway.pending.sequence == pending.sequence:
            gateway.pending = None
            if pending.closing:
                self.gateways.pop(gateway.name, None)

    # What happens to them.

    def _strike(self) -> None:
        gateway = self.random.choice(sorted(self.gateways.values(), key=lambda each: each.name))
        strikes = (self._close, self._die, self._recapacity, self._respec)
        strike = self._cut_off if self.random.random() < 0.5 else self.random.choice(strikes)
        strike(gateway)
        while len(self.gateways) < 4:
            self._join()
        self._after(500, 9_000, self._strike)

    def _cut_off(self, gateway: ModelGateway) -> None:
        gateway.reads, gateway.writes = self.random.choice(
            ((False, False), (False, False), (False, True), (True, False))
        )
        self._after(1_000, FLOOR_MS * 3 // 2, lambda: self._back(gateway))

    def _back(self, gateway: ModelGateway) -> None:
        gateway.reads = gateway.writes = True
        self._catch_up(gateway)

    def _catch_up(self, gateway: ModelGateway) -> None:
        """What the compacted topic holds for it."""
        for (_, to, _), record in self.retained.items():
            if to in ("", gateway.name):
                self._deliver(gateway, record)

    def _close(self, gateway: ModelGateway) -> None:
        gateway.closed = True

    def _die(self, gateway: ModelGateway) -> None:
        """Killed: it spends nothing, and the pool hears nothing."""
        gateway.closed, gateway.writes = True, False
        self.gateways.pop(gateway.name, None)

    def _recapacity(self, gateway: ModelGateway) -> None:
        part = self.random.choice((0.4, 0.8, 1.0, 1.0, 1.2))
        sequences = int(SEQUENCES * part)
        self._fold(CapacityReport("chat", "backend", int(CAPACITY * 1000 * part), None, sequences))

    def _respec(self, gateway: ModelGateway) -> None:
        """Somebody is suspended or let in again, or leaves the spec for a while."""
        claims = [claim for claim in SPEC.entitlements if self.random.random() < 0.9]
        claims = [replace(each, suspended=self.random.random() < 0.2) for each in claims]
        version = self.spec.version
        self.spec = replace(SPEC, version=version + 1, replaces=version, entitlements=tuple(claims))
        self._fold(self.spec)

    # The pool.

    def _fold(self, record: UsageReport | PoolSpec | CapacityReport) -> None:
        if self.random.random() < 0.02:
            self._restart()
        decided = advance(self.pool, self.now)
        if decided is not None:
            self._publish(decided)
        fold(self.pool, record, self.now)

    def _restart(self) -> None:
        rows = list(to_rows(self.pool).items())
        self.random.shuffle(rows)
        self.pool = from_rows(dict(rows))

    def _publish(self, decided: Decided) -> None:
        self.decisions += 1
        decision = decided.decision
        if decision.capacity != self.capacities[-1][1]:
            self.capacities.append((decision.at_ms, decision.capacity))
            self.sequences.append((decision.at_ms, self.pool.capacity.sequences or 0))
        entry = decided.entries[0].body
        assert isinstance(entry, DecisionEntry)
        self.leased = dict(zip(entry.tenants.tenant, entry.tenants.leased, strict=True))
        self.floors.check(entry, self.pool)
        given = sum(entry.gateways.leased)
        ceiling = decision.capacity * self.spec.ceiling // 1_000_000
        self._expect(decision.granted, ceiling, "the grants")
        if self.accounts:
            self._expect(given, max(ceiling, self.given), "what is given")
        self.given = given
        for leases in decided.leases:
            self._send(leases, leases.gateway)
        for record in (decided.barred, decided.roster, decided.decision):
            if record is not None:
                self._send(record, "")

    def _send(self, record: ControlRecord, to: str) -> None:
        part = record.part if isinstance(record, GatewayLeases) else 0
        self.retained[type(record).__name__, to, part] = record
        for gateway in list(self.gateways.values()):
            if to in ("", gateway.name):
                self._deliver(gateway, record)

    def _deliver(self, gateway: ModelGateway, record: ControlRecord) -> None:
        luck = self.random.random()
        if not gateway.reads or luck < 0.03:
            return
        late = 20_000 if luck < 0.08 else 1_500 if luck < 0.3 else 80
        self._after(1, late, lambda: gateway.hear(record, self.now))
        if luck > 0.95:
            self._after(1, 20_000, lambda: gateway.hear(record, self.now))

    # The promise.

    def _check(self) -> None:
        spending = [gateway.may_spend(self.now) for gateway in self.gateways.values()]
        for gateway in self.gateways.values():
            gateway.end(self.now)
        running = sum(gateway.may_run(self.now) for gateway in self.gateways.values())
        self.most_running = max(self.most_running, running)
        lives = FLOOR_MS + LONGEST_MS
        self._expect(running, _most(self.sequences, self.now - lives), "sequences that may run")
        fresh = sum(each.total - each.floors for each in spending)
        total = sum(each.total for each in spending)
        self.most = max(self.most, total)
        self._expect(fresh, self._capacity(LEASE_MS), "the rates and pots of leases that last")
        self._expect(total, self._capacity(FLOOR_MS), "all that gateways may spend")
        if self.accounts:
            self._expect(total, self.given, "all that gateways may spend, of what is given,")
            for name in {name for each in spending for name in each.by_tenant}:
                self._check_tenant(name, spending)

    def _check_tenant(self, name: str, spending: list[Spending]) -> None:
        """What a tenant has that was out of the spec for a while is accounted to the unknown."""
        total = sum(each.by_tenant.get(name, 0) for each in spending)
        most = self.leased.get(name, 0) + self.leased.get(UNKNOWN, 0)
        self._expect(total, most, f"what {name} may spend")

    def _capacity(self, over_ms: int) -> int:
        """The most that the capacity was at any moment of the last `over_ms`."""
        return _most(self.capacities, self.now - over_ms)

    def _expect(self, value: int, most: int, what: str) -> None:
        if value > most:
            raise Exceeded(
                f"{what}: {value}, {most} is the most (seed {self.seed}, "
                f"{self.now - START} ms, {self.decisions} decisions)"
            )


def _most(capacities: list[tuple[int, int]], since_ms: int) -> int:
    """The most that a capacity was at any moment since then."""
    most = 0
    for at_ms, value in reversed(capacities):
        most = max(most, value)
        if at_ms <= since_ms:
            break
    return most
