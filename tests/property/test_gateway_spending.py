"""Promise 1 at one gateway: whatever is lost, late or repeated on the way, it never spends more
than the leases that were given to it (PROTOCOL L1, L5, L6, L7, L9).

The oracle knows nothing of buckets: what was given at a moment is the largest rate of all leases
issued so far that have not expired in true pool time, or the largest floor that still lives.
"""

from collections import defaultdict
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.gateway.made import EPOCH_MS, POOL, decision, leases, roster, settle
from tokenweir.gateway.clock import PoolClock
from tokenweir.gateway.hearing import ControlRecord
from tokenweir.gateway.pool import PoolGate
from tokenweir.gateway.request import Request

TENANTS = ("ela", "gua", "spo")
POT = "the pot"
LARGEST = 20  # tokens of one request
MOST_RATE = 90  # tokens/s
MOST_BURST = MOST_RATE // 10
LEASE_MS, FLOOR_MS = 3_000, 8_000
KINDS = ("decide", "decide", "spend", "spend", "settle", "report", "wait")


@dataclass(frozen=True)
class Event:
    """`late` is how long a message is on its way, in ms; a lost one never arrives."""

    step_ms: int
    kind: str
    tenant: int
    amount: int
    late: int
    again: int
    lost: bool


@dataclass
class Given:
    """One lease as it was issued, in true time: (rate, floor) in tokens/s."""

    at_ms: int
    rates: dict[str, tuple[int, int]]

    def rate(self, who: str, now_ms: int) -> int:
        rate, floor = self.rates.get(who, (0, 0))
        if now_ms < self.at_ms + LEASE_MS:
            return rate
        return floor if now_ms < self.at_ms + FLOOR_MS else 0


@dataclass
class World:
    """True time, the control plane's leases, the messages on their way, and one gateway."""

    gate: PoolGate = field(default_factory=lambda: PoolGate(POOL, "edge"))
    now_ms: int = 0
    issued: list[Given] = field(default_factory=list)
    records: list[tuple[int, ControlRecord]] = field(default_factory=list)
    acks: list[tuple[int, int, int]] = field(default_factory=list)
    running: list[Request] = field(default_factory=list)
    # Milli-tokens: what was given minus what is charged, and the most that this has been.
    account: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    best: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def play(self, event: Event) -> None:
        for _ in range(event.step_ms // 20):
            self._pass(20)
        getattr(self, event.kind)(event)
        for request in self.gate.serve(self.now_ms):
            self._admitted(request)
        self._check()

    def decide(self, event: Event) -> None:
        at_ms = self.now_ms // 1000 * 1000 + 1000
        self._pass(at_ms - self.now_ms)
        # Who gets how much comes from one number, so that an example says it all.
        shares = [(event.amount * (3 + place)) % (MOST_RATE + 1) for place in range(4)]
        rates = {
            name: (rate, rate // 3)
            for name, rate in zip(TENANTS, shares, strict=False)
            if rate % 4  # sometimes a tenant is left out
        }
        self.issued.append(Given(at_ms, {**rates, POT: (shares[3], 0)}))
        rows = [(name, rate, rate // 10, floor) for name, (rate, floor) in sorted(rates.items())]
        lease = leases(
            self.gate.gateway,
            *rows,
            at_ms=at_ms,
            expires_ms=at_ms + LEASE_MS,
            floor_expires_ms=at_ms + FLOOR_MS,
            pot=(shares[3], shares[3] // 10),
        )
        for late in () if event.lost else (event.late, event.late + event.again):
            self.records += [(self.now_ms + late, lease), (self.now_ms + late, decision(at_ms))]

    def spend(self, event: Event) -> None:
        """Ask for all that can be had, for a while."""
        for _ in range(event.step_ms // 20):
            self._pass(100)
            while self._ask(TENANTS[event.tenant], event.amount % LARGEST + 1):
                pass
            self._check()

    def _ask(self, tenant: str, estimate: int) -> bool:
        request = Request(tenant, "bo", estimate)
        self.gate.ask(request, self.now_ms)
        self._admitted(request)
        return request.state == "admitted"

    def settle(self, event: Event) -> None:
        if self.running:
            request = self.running.pop(event.tenant % len(self.running))
            before = request.held
            settle(self.gate, request, self.now_ms, event.amount % (before // 1000 + 1))
            self.account[_payer(self.gate, request)] += before - request.held

    def report(self, event: Event) -> None:
        appended_ms = self.now_ms + event.late // 10
        if not event.lost:
            self.acks.append((appended_ms + event.again // 10, appended_ms, self.now_ms))

    def wait(self, event: Event) -> None:
        self._pass(event.late)

    def _admitted(self, request: Request) -> None:
        if request.state == "admitted":
            self.running.append(request)
            self.account[_payer(self.gate, request)] -= request.held

    def _pass(self, step_ms: int) -> None:
        for who in (*TENANTS, POT):
            rate = max((lease.rate(who, self.now_ms) for lease in self.issued), default=0)
            # Rates change at multiples of 20 ms only, so a step has one rate.
            self.account[who] += rate * step_ms
        self.now_ms += step_ms
        self._deliver()

    def _deliver(self) -> None:
        for due_ms, record in [r for r in self.records if r[0] <= self.now_ms]:
            self.records.remove((due_ms, record))
            self.gate.hear(record, self.now_ms)
        for ack in sorted(a for a in self.acks if a[0] <= self.now_ms):
            self.acks.remove(ack)
            self.gate.acknowledged(ack[1] + EPOCH_MS, ack[2], self.now_ms)

    def _check(self) -> None:
        for who in (*TENANTS, POT):
            self.best[who] = max(self.best[who], self.account[who])
            # Between any two moments: what flowed, a burst, and one request.
            assert self.best[who] - self.account[who] <= 1000 * (MOST_BURST + LARGEST), who


def _payer(gate: PoolGate, request: Request) -> str:
    return POT if request.bucket is gate.leases.pot else request.subject.name


steps = st.integers(0, 60).map(lambda n: n * 20)
events = st.builds(
    Event,
    step_ms=steps,
    kind=st.sampled_from(KINDS),
    tenant=st.integers(0, 2),
    amount=st.integers(0, 1000),
    late=st.one_of(st.just(0), steps, steps.map(lambda ms: ms * 4)),
    again=steps,
    lost=st.sampled_from((False, False, False, True)),
)


def play_on(world: World, story: list[Event]) -> None:
    for event in story:
        world.play(event)


@settings(max_examples=100, deadline=None)
@given(st.lists(events, min_size=5, max_size=40))
def test_a_gateway_never_spends_more_than_it_was_given(story: list[Event]) -> None:
    world = World()
    world.gate.hear(roster(), 0)
    play_on(world, story)


class LateClock(PoolClock):
    """Reads on from the acknowledgement, not from the sending: late by the way to the broker."""

    def at(self, now_ms: int) -> int | None:
        time_ms = super().at(now_ms)
        return None if time_ms is None else time_ms - 6_000


def test_with_a_clock_that_is_late_it_would() -> None:
    #  own time   1 000 a lease of 90/s ─── 4 000 its end, as it is ─── 10 000 as it seems
    world = World()
    world.gate.clock = LateClock()
    world.gate.hear(roster(), 0)
    report, decide = (Event(0, kind, 0, 30, 0, 0, False) for kind in ("report", "decide"))
    spend = Event(600, "spend", 0, 9, 0, 0, False)  # 3 s, twice
    with pytest.raises(AssertionError, match="ela"):
        play_on(world, [report, decide, spend, spend])
