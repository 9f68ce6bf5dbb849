"""A gateway as PROTOCOL describes it, and nothing of the SDK: what may it spend, and when.

Time is the broker's true time in ms, which no gateway knows; own clocks run at the same speed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tokenweir.records.control import Barred, ControlDecision, GatewayLeases, Roster
from tokenweir.records.spec import UNKNOWN
from tokenweir.records.usage import UsageReport

ControlRecord = ControlDecision | GatewayLeases | Roster | Barred


class Clock:
    """L6: the append time in the last acknowledgement + (now - the moment of sending)."""

    def __init__(self) -> None:
        self.lead: int | None = None
        self.latest = 0

    def acknowledged(self, append_ms: int, sent_ms: int, now_ms: int) -> None:
        self.lead = append_ms - sent_ms
        self.latest = max(self.latest, append_ms)

    def at(self, now_ms: int) -> int | None:
        if self.lead is None:
            return None
        self.latest = max(self.latest, now_ms + self.lead)
        return self.latest


class LateClock(Clock):
    """What L6 forbids: the last append time alone, without what has passed since the sending."""

    def at(self, now_ms: int) -> int | None:
        return None if self.lead is None else self.latest


@dataclass(slots=True)
class Spending:
    """What one gateway may spend at a moment, milli-tokens/s."""

    by_tenant: Mapping[str, int] = field(default_factory=dict)
    pot: int = 0
    floors: int = 0  # of it, what a silent gateway has, or one that was silent and came back

    @property
    def total(self) -> int:
        return sum(self.by_tenant.values()) + self.pot


NOTHING = Spending()


@dataclass(slots=True)
class ModelGateway:
    name: str
    clock: Clock
    sequence: int = 0
    closed: bool = False
    reads: bool = True  # control records reach it
    writes: bool = True  # its reports reach the broker
    decision: ControlDecision | None = None
    roster: Roster | None = None
    parts: dict[int, GatewayLeases] = field(default_factory=dict)
    obeyed: tuple[GatewayLeases, ...] = ()
    kept: Mapping[str, int] = field(default_factory=dict)  # floors when it was silent last
    kept_until_ms: int = 0
    pending: UsageReport | None = None  # its fate is unknown (R1)
    cut_ms: int = 0  # of the pending report
    running: dict[str, list[int]] = field(default_factory=dict)  # by tenant: when each one ends

    def hear(self, record: ControlRecord, now_ms: int) -> None:
        """Records come late, twice or not at all; older ones than the newest seen are ignored."""
        match record:
            case ControlDecision():
                if self.decision is None or record.at_ms > self.decision.at_ms:
                    self.decision = record
                    self.clock.latest = max(self.clock.latest, record.at_ms)
            case GatewayLeases():
                held = self.parts.get(record.part)
                if held is None or record.at_ms > held.at_ms:
                    self.parts[record.part] = record
            case Roster():
                if self.roster is None or record.spec_version > self.roster.spec_version:
                    self.roster = record
            case Barred():
                pass
        self._obey(now_ms)

    @property
    def applied(self) -> int:
        return self.obeyed[0].at_ms if self.obeyed else 0

    def may_spend(self, now_ms: int) -> Spending:
        """By the leases that it obeys: the rates, then the floors, then nothing (L7)."""
        time = self.clock.at(now_ms)
        if time is None or self.closed or not self.obeyed:
            return NOTHING
        first = self.obeyed[0]
        if time < first.expires_ms:
            rates = self._column("rate")
            kept = self.kept if time < self.kept_until_ms else {}
            floors = sum(min(rate, kept.get(name, 0)) for name, rate in rates.items())
            return Spending(rates, first.pot_rate, floors)
        if time < first.floor_expires_ms:
            floor = self._column("floor")
            return Spending(floor, 0, sum(floor.values()))
        return NOTHING

    def start(self, wants: Mapping[str, int], ends_ms: int, now_ms: int) -> None:
        """Start sequences up to the limits that it obeys; all of them run until `ends_ms`."""
        limits = self.limits(now_ms)
        for name, count in wants.items():
            room = limits.get(name, 0) - len(self.running.get(name, ()))
            self.running.setdefault(name, []).extend([ends_ms] * max(min(count, room), 0))

    def end(self, now_ms: int) -> None:
        """What has run its time ends."""
        for name, ends in self.running.items():
            self.running[name] = [end for end in ends if end > now_ms]

    def limits(self, now_ms: int) -> Mapping[str, int]:
        """The most sequences of each tenant: its limit while it may spend anything (L7)."""
        spending = self.may_spend(now_ms).by_tenant
        return {
            name: most for name, most in self._column("sequences").items() if spending.get(name)
        }

    def may_run(self, now_ms: int) -> int:
        """Sequences that may run here now: those that do, and what the limits still let in."""
        limits = self.limits(now_ms)
        known = {*self._column("sequences"), *(self.roster.tenant if self.roster else ())}
        runs: dict[str, int] = {}
        for name, ends in self.running.items():  # who has left the roster is one of the unknown
            who = name if name in known else UNKNOWN
            runs[who] = runs.get(who, 0) + len(ends)
        tenants = sum(max(limits.get(n, 0), runs.get(n, 0)) for n in {*limits, *runs})
        first = self.obeyed[0] if self.obeyed else None
        time = self.clock.at(now_ms)
        open_ = first is not None and not self.closed and time is not None
        return tenants + (
            first.pot_sequences if first and open_ and time and time < first.expires_ms else 0
        )

    def _obey(self, now_ms: int) -> None:
        if self.decision is None or self.roster is None:
            return
        parts = [self.parts.get(part) for part in range(self.decision.parts)]
        whole = tuple(part for part in parts if part and part.at_ms == self.decision.at_ms)
        if len(whole) == len(parts) and self.roster.spec_version == self.decision.spec_version:
            self._keep(now_ms)
            self.obeyed = whole

    def _keep(self, now_ms: int) -> None:
        """Remember the floors on which it lived, if it was silent until now."""
        time = self.clock.at(now_ms)
        if self.obeyed and time and time >= self.obeyed[0].expires_ms:
            self.kept, self.kept_until_ms = self._column("floor"), self.obeyed[0].floor_expires_ms

    def _column(self, name: str) -> dict[str, int]:
        return {
            tenant: value
            for part in self.obeyed
            for tenant, value in zip(part.tenant, getattr(part, name), strict=True)
        }
