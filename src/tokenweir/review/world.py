"""One policy's course through a log: the pool, what its gateways were told, what it decided."""

from collections.abc import Sequence
from dataclasses import dataclass

from tokenweir.core import ONE
from tokenweir.core.step import Decided
from tokenweir.records.control import GatewayLeases
from tokenweir.records.journal import AuditEntry, DecisionEntry, JournalEntry
from tokenweir.records.spec import CLASSES, RANK, UNKNOWN, PoolSpec
from tokenweir.records.usage import UsageReport
from tokenweir.review.counterfactual import Limit
from tokenweir.review.fold import PoolFold
from tokenweir.review.frames import Frame, frame_of
from tokenweir.usage_log import Message

# Pots are closed from this tier on for classes without a floor (L8).
CLOSED = ("hard_degrade", "circuit_break")
MOST_TOLD = 100  # of one gateway, newest last: it obeys one of them or none that is known


@dataclass(frozen=True, slots=True)
class Told:
    """What one gateway was sent at one decision: all its leases, and its pot."""

    at_ms: int
    expires_ms: int
    floor_expires_ms: int
    leases: dict[str, tuple[int, int, int]]  # rate, burst, floor by tenant
    pot: Limit


@dataclass(frozen=True, slots=True)
class Noted:
    """One audit entry, under its id."""

    id: str
    at_ms: int
    entry: AuditEntry


@dataclass(frozen=True, slots=True)
class Rules:
    """What a spec says of each class, by its rank."""

    spec: PoolSpec
    longest_wait_ms: tuple[int, ...]
    starter: tuple[int, ...]


def rules_of(spec: PoolSpec) -> Rules:
    """A class of which it says nothing may not wait, and has no part of a pot."""
    by_class = {terms.service_class: terms for terms in spec.classes}
    ranked = [by_class.get(name) for name in CLASSES]
    return Rules(
        spec,
        tuple(terms.longest_wait_ms if terms else 0 for terms in ranked),
        tuple(terms.starter if terms else 0 for terms in ranked),
    )


class World:
    """Folds messages, and keeps what the model and the comparison need."""

    def __init__(self, fold: PoolFold) -> None:
        self.fold, self.pool = fold, fold.pool
        self.told: dict[str, list[Told]] = {}  # by gateway, oldest first
        self.frames: list[Frame] = []
        self.audits: list[Noted] = []
        self.latest: DecisionEntry | None = None
        self._known: Rules | None = None

    def advance(self, message: Message) -> Decided | None:
        """Move time to the message; what it decides is remembered."""
        decided = self.fold.advance(message)
        if decided is not None:
            self._hear(decided.leases)
        return decided

    def keep(self, entries: Sequence[JournalEntry]) -> None:
        """Keep decisions and audit entries for the comparison."""
        for entry in entries:
            match entry.body:
                case DecisionEntry():
                    self.latest = entry.body
                    self.frames.append(frame_of(entry.body))
                case AuditEntry():
                    self.audits.append(Noted(entry.id, entry.at_ms, entry.body))

    def obeyed(self, report: UsageReport) -> Told | None:
        """What the gateway obeys: the newest that it was sent up to the decision that it names."""
        told = self.told.get(report.gateway, [])
        known = [one for one in told if one.at_ms <= report.applied]
        if known:
            self.told[report.gateway] = told[len(known) - 1 :]
        return known[-1] if known else None

    def limit(self, told: Told, tenant: str, now_ms: int) -> Limit | None:
        """What limits a tenant at the gateway that was told so; None: nothing does."""
        spec = self._spec()
        if spec.mode == "shadow":
            return None
        name = tenant if tenant in self.pool.terms.index else UNKNOWN
        if name not in told.leases:
            return self._pot(told, name) if now_ms < told.expires_ms else Limit(0, 0)
        rate, burst, floor = told.leases[name]
        if now_ms < told.expires_ms:
            return Limit(rate, burst)
        kept = floor if now_ms < told.floor_expires_ms else 0
        return Limit(kept, min(kept, burst))

    def wait_ms(self, tenant: str) -> int:
        """How long a tenant's requests may wait."""
        terms = self.pool.terms
        place = terms.index.get(tenant, terms.unknown)
        return self._rules().longest_wait_ms[int(terms.rank[place])]

    def _pot(self, told: Told, name: str) -> Limit:
        """The tenant's allowance of the starter pot (L8)."""
        rank = int(self.pool.terms.rank[self.pool.terms.index[name]])
        barred = any(name == each for each, _ in self.pool.barred)
        if barred or (self.pool.tier.tier in CLOSED and rank < RANK["elastic"]):
            return Limit(0, 0)
        starter = self._rules().starter[rank]
        return Limit(told.pot.rate * starter // ONE, told.pot.burst * starter // ONE)

    def _hear(self, records: Sequence[GatewayLeases]) -> None:
        parts: dict[str, list[GatewayLeases]] = {}
        for record in records:
            parts.setdefault(record.gateway, []).append(record)
        for gateway, own in parts.items():
            self.told[gateway] = [*self.told.get(gateway, [])[-MOST_TOLD:], _told(own)]
        for gateway in self.told.keys() - self.pool.gateways.keys():
            del self.told[gateway]

    def _rules(self) -> Rules:
        spec = self._spec()
        if self._known is None or self._known.spec is not spec:
            self._known = rules_of(spec)
        return self._known

    def _spec(self) -> PoolSpec:
        assert self.pool.spec is not None
        return self.pool.spec


def _told(parts: Sequence[GatewayLeases]) -> Told:
    leases = {
        name: (rate, burst, floor)
        for part in parts
        for name, rate, burst, floor in zip(
            part.tenant, part.rate, part.burst, part.floor, strict=True
        )
    }
    pot = Limit(sum(part.pot_rate for part in parts), sum(part.pot_burst for part in parts))
    first = parts[0]
    return Told(first.at_ms, first.expires_ms, first.floor_expires_ms, leases, pot)
