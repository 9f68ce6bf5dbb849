"""The pool's log and the real policy over it, in virtual time."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from simpy import Environment

from tokenweir.core.pool import new_pool
from tokenweir.core.step import Decided, UsageRecord, advance, fold
from tokenweir.gateway.hearing import ControlRecord
from tokenweir.records.control import ControlDecision
from tokenweir.records.journal import AuditEntry, DecisionEntry, JournalEntry
from tokenweir.records.spec import PoolSpec

EPOCH_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z: virtual time 0


@dataclass(frozen=True, slots=True)
class Audited:
    """An audit entry and when it was made, ms of virtual time."""

    at: float
    audit: AuditEntry


@dataclass(frozen=True, slots=True)
class DecisionTaken:
    """A decision as the journal has it, and when it was taken, ms of virtual time."""

    at: float
    entry: DecisionEntry

    @property
    def decision(self) -> ControlDecision:
        """What was published."""
        return self.entry.decision


class Plane:
    """Appends records, decides as the control worker does, and hands on what is published."""

    def __init__(
        self,
        env: Environment,
        spec: PoolSpec,
        publish: Callable[[str | None, ControlRecord], None],
    ) -> None:
        self.decisions: list[DecisionTaken] = []
        self.audits: list[Audited] = []
        self._env = env
        self._publish = publish  # to one gateway, or to all
        self._pool = new_pool(spec.pool)
        self.append(spec)

    @property
    def now_ms(self) -> int:
        """The broker's clock, Unix ms."""
        return EPOCH_MS + int(self._env.now)

    def append(self, record: UsageRecord) -> int:
        """Append a record to the usage topic; when that was, Unix ms."""
        append_ms = self.now_ms
        decided = advance(self._pool, append_ms)
        entries = fold(self._pool, record, append_ms)
        if decided is not None:
            self._keep(decided.entries)
            self._hand_on(decided)
        self._keep(entries)
        return append_ms

    def _keep(self, entries: Iterable[JournalEntry]) -> None:
        for entry in entries:
            at = entry.at_ms - EPOCH_MS
            if isinstance(entry.body, DecisionEntry):
                self.decisions.append(DecisionTaken(at, entry.body))
            elif isinstance(entry.body, AuditEntry):
                self.audits.append(Audited(at, entry.body))

    def _hand_on(self, decided: Decided) -> None:
        for record in (decided.roster, decided.barred):
            if record is not None:
                self._publish(None, record)
        for lease in decided.leases:
            self._publish(lease.gateway, lease)
        self._publish(None, decided.decision)
