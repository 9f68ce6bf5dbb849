"""The SDK's core under the control plane's core, in virtual time, with quotas: promise 4.

Gateways are cut off, killed and closed; records are late, lost and repeated; the pool is restored
from its rows at any moment. Nothing sleeps, and a seed tells the whole run.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

from tests.pools import START, pool_with, spec, tenant
from tests.property import edges
from tokenweir.core.pool import Pool
from tokenweir.core.quota import calendar
from tokenweir.core.step import Decided, advance, fold
from tokenweir.gateway import ledger
from tokenweir.gateway.hearing import ControlRecord
from tokenweir.gateway.pool import PoolGate
from tokenweir.gateway.request import Request
from tokenweir.records.control import GatewayLeases
from tokenweir.records.journal import AuditEntry, DecisionEntry
from tokenweir.records.spec import Quota, UserTerms
from tokenweir.rows import from_rows, to_rows
from tokenweir.spec.zones import zone_of

Account = tuple[str, str, str]  # tenant, user, window
STEP_MS = 100
MINUTE_MS = 60_000
LARGEST = 300  # tokens of one request
USERS = ("ana", "ben", "boss", "cleo")


def minute(tokens: int, rollover: int = 0, lend: bool = False) -> Quota:
    return Quota("minute", "UTC", tokens, rollover, lend, False)


UTC = zone_of("UTC")
HOUR = Quota("hour", "UTC", 20_000, 0, False, False)
RULES = spec(
    tenant("gua", "guaranteed", 1_000, quotas=[minute(8_000, rollover=2_000)]),
    tenant("ela", "elastic", 500, quotas=[minute(6_000), HOUR]),
    tenant("giver", "elastic", 500, quotas=[minute(30_000, lend=True)]),
    tenant("taker", "spot", quotas=[minute(3_000)]),
    tenant("wide", "spot", quotas=[minute(40_000)]),
    tenant(
        "keys",
        "elastic",
        1_000,
        quotas=[minute(20_000)],
        user_quotas=[minute(4_000)],
        users=[UserTerms("boss", 1_000_000, [minute(9_000)])],
    ),
    capacity=5_000,
    lease_ms=5_000,
    floor_ms=30_000,
    zones=(UTC,),
)  # fmt: skip
TENANTS = tuple(claim.tenant for claim in RULES.entitlements)


@dataclass
class Edge(edges.Edge):
    """One gateway, and what has befallen it."""

    cut_until_ms: int = 0
    dead: bool = False
    # By its id, what runs from the pot, and the accounts that it was booked to.
    from_pot: dict[int, tuple[Request, Sequence[Account]]] = field(default_factory=dict)


class QuotaWorld:
    """One pool and up to four gateways."""

    def __init__(self, seed: int, trouble: float) -> None:
        self.random, self.trouble = Random(seed), trouble
        self.pool: Pool = pool_with(RULES)
        self.now_ms, self.born = START, 0
        self.edges: list[Edge] = []
        self.retained: dict[tuple[str, str], ControlRecord] = {}
        self.load = dict.fromkeys(TENANTS, 0.3)
        self.admitted: dict[Account, int] = defaultdict(int)  # tokens, by the gateways' windows
        self.free: dict[str, set[str]] = defaultdict(set)  # whose pots gave without a ceiling
        self.ceilings: dict[Account, dict[str, int]] = defaultdict(dict)
        self.limits: dict[Account, int] = defaultdict(int)  # the largest that was decided
        self.closed: set[str] = set()
        self.audits: list[AuditEntry] = []
        for _ in range(3):
            self._join()

    def run(self, seconds: int) -> None:
        for _ in range(seconds * 1000 // STEP_MS):
            self.now_ms += STEP_MS
            for edge in [*self.edges]:
                if not edge.dead:
                    self._turn(edge)
            if self.trouble and self.random.random() < 0.01:
                self._strike()

    def check(self) -> None:
        """Nothing that a quota forbids was admitted, and nothing more was ever given (Q1)."""
        for account, given in self.ceilings.items():
            if account[1] != "*":
                assert sum(given.values()) <= self._limit(account), account
        for account, tokens in self.admitted.items():
            # Where no ceiling holds, a pot may be overdrawn by one request (L5).
            overdrawn = LARGEST * len(self.free[account[0]])
            assert tokens <= self._limit(account) + overdrawn, account

    def _limit(self, account: Account) -> int:
        """The largest that a decision has named, or the quota where none has yet."""
        if account in self.limits:
            return self.limits[account]
        claim = next(claim for claim in RULES.entitlements if claim.tenant == account[0])
        own = {user.user: user.quotas for user in claim.users}
        quotas = own.get(account[1], claim.user_quotas) if account[1] else claim.quotas
        cycle = account[2].partition("/")[0]
        return next((q.tokens + q.rollover for q in quotas if q.cycle == cycle), 10**12)

    def _turn(self, edge: Edge) -> None:
        cut = self.now_ms < edge.cut_until_ms
        if not cut:
            edge.deliver(self.now_ms)
        self._work(edge)
        if self.now_ms % 500 == 0:
            edge.spool += edge.gate.cut(edge.own(self.now_ms))
        if not cut:
            self._send(edge)

    def _work(self, edge: Edge) -> None:
        own_ms = edge.own(self.now_ms)
        for due_ms, request in [each for each in edge.running if each[0] <= self.now_ms]:
            edge.running.remove((due_ms, request))
            before = request.held
            ledger.settle(edge.gate, request, own_ms, self.random.randint(0, before // 1000), 0, 0)
            self._book(request, request.held - before)
            for account in edge.from_pot.pop(id(request), (request, ()))[1]:
                self.admitted[account] += (request.held - before) // 1000
        asked = [each for each in edge.gate.serve(own_ms) if each.state == "admitted"]
        for name in TENANTS:
            if self.random.random() < self.load[name]:
                user = self.random.choice(USERS) if name == "keys" else "bo"
                request = Request(name, user, self.random.randint(1, LARGEST))
                edge.gate.ask(request, own_ms)
                asked += [request] * (request.state == "admitted")
        for request in asked:
            if not request.windows:  # from a pot: of the windows that it was admitted in
                self.free[request.tenant].add(edge.gate.gateway)
                edge.from_pot[id(request)] = request, self._book_pot(request, edge, own_ms)
            self._book(request, request.held)
            edge.running.append((self.now_ms + self.random.randint(0, 400), request))

    def _book(self, request: Request, held: int) -> None:
        for place, window in enumerate(request.windows):
            whole = sum(each.ends_ms - each.starts_ms == window.ends_ms - window.starts_ms
                        for each in request.windows[:place])  # fmt: skip
            user = request.user if whole else ""
            self.admitted[request.tenant, user, window.window_id] += held // 1000

    def _book_pot(self, request: Request, edge: Edge, own_ms: int) -> list[Account]:
        """Book what was taken from a pot in the windows that run; which they are."""
        pool_ms, booked = edge.gate.clock.at(own_ms) or 0, list[Account]()
        for name, user, cycle in self.pool.quotas.accounts.keys:
            if name == request.tenant and user in ("", request.user):
                account = name, user, calendar.window(cycle, UTC, pool_ms).id
                self.admitted[account] += request.held // 1000
                booked.append(account)
        return booked

    def _send(self, edge: Edge) -> None:
        if not edge.spool or self.now_ms < edge.in_flight_until_ms:
            return
        cut = edge.spool[0]
        sent_ms = edge.own(self.now_ms)
        self._append(replace(cut.report, age_ms=max(sent_ms - cut.cut_ms, 0)))
        lost = self.random.random() < self.trouble
        edge.in_flight_until_ms = self.now_ms + (1000 if lost else STEP_MS)
        if not lost:
            edge.spool.pop(0)
            edge.acks.append((self.now_ms + STEP_MS, self.now_ms, sent_ms))

    def _append(self, record: object) -> None:
        if self.random.random() < 0.02:
            self.pool = from_rows(to_rows(self.pool))
        decided = advance(self.pool, self.now_ms)
        fold(self.pool, record, self.now_ms)  # type: ignore[arg-type]
        if decided is not None:
            self._publish(decided)

    def _publish(self, decided: Decided) -> None:
        self._note(decided)
        for record in (*decided.leases, decided.barred, decided.roster, decided.decision):
            if record is None:
                continue
            to = record.gateway if isinstance(record, GatewayLeases) else ""
            self.retained[type(record).__name__, to] = record
            for edge in self.edges:
                if to in ("", edge.gate.gateway):
                    self._deliver(edge, record)

    def _deliver(self, edge: Edge, record: ControlRecord) -> None:
        trouble = self.random.random() < self.trouble
        late_ms = self.random.randint(0, 6_000) if trouble else STEP_MS
        edge.records.append((self.now_ms + late_ms, record))

    def _note(self, decided: Decided) -> None:
        for leases in decided.leases:
            columns = (leases.ceiling_tenant, leases.ceiling_user, leases.ceiling_window_id)
            for *account, tokens in zip(*columns, leases.ceiling_tokens, strict=True):
                tenant, user, window = account
                before = self.ceilings[tenant, user, window].get(leases.gateway, 0)
                assert tokens >= before, "ceilings only rise"
                self.ceilings[tenant, user, window][leases.gateway] = tokens
        for gateway, _ in decided.gone:
            self._returned(gateway)
        entry = decided.entries[0].body
        assert isinstance(entry, DecisionEntry)
        figures = entry.quotas
        columns = (figures.tenant, figures.user, figures.window_id)
        for *account, tokens in zip(*columns, figures.tokens, strict=True):
            key = (account[0], account[1], account[2])
            self.limits[key] = max(self.limits[key], tokens)
        for one in decided.entries[1:]:
            if isinstance(one.body, AuditEntry) and one.body.kind == "quota":
                self.audits.append(one.body)

    def _returned(self, gateway: str) -> None:
        """What a gateway that has closed did not spend may be given to others."""
        self.edges = [edge for edge in self.edges if edge.gate.gateway != gateway]
        for given in self.ceilings.values() if gateway in self.closed else ():
            given.pop(gateway, None)

    def _join(self) -> None:
        self.born += 1
        edge = Edge(PoolGate("chat", f"edge-{self.born}"), 7_777 * self.born - START)
        self.edges.append(edge)
        for (_, to), record in self.retained.items():
            if to == "":
                edge.records.append((self.now_ms + STEP_MS, record))

    def _strike(self) -> None:
        if not self.edges:  # all were silent for so long that they were forgotten
            self._join()
        edge = self.random.choice(self.edges)
        match self.random.choice(("cut", "cut", "kill", "close", "load")):
            case "cut":
                edge.cut_until_ms = self.now_ms + self.random.randint(1_000, 40_000)
            case "kill":
                self.edges.remove(edge)
            case "close" if not edge.dead and self.now_ms >= edge.cut_until_ms:
                self._close(edge)
            case _:
                self.load = {name: self.random.choice((0, 0.05, 0.3, 1)) for name in TENANTS}
        while len(self.edges) < 3:
            self._join()

    def _close(self, edge: Edge) -> None:
        own_ms = edge.own(self.now_ms)
        for _, request in edge.running:
            before = request.held
            ledger.settle(edge.gate, request, own_ms, before // 1000, 0, 0)
        edge.running.clear()
        edge.gate.close(own_ms)
        for cut in (*edge.spool, *edge.gate.cut(own_ms, closing=True)):
            self._append(replace(cut.report, age_ms=max(own_ms - cut.cut_ms, 0)))
        edge.dead = True
        self.closed.add(edge.gate.gateway)
