"""A gateway of the SDK in virtual time, and what is on its way to and from it."""

from dataclasses import dataclass, field

from tokenweir.gateway.hearing import ControlRecord
from tokenweir.gateway.pool import PoolGate
from tokenweir.gateway.report import Cut
from tokenweir.gateway.request import Request


@dataclass
class Edge:
    """One gateway, and the difference of its clock to the broker's."""

    gate: PoolGate
    ahead_ms: int
    spool: list[Cut] = field(default_factory=list)
    running: list[tuple[int, Request]] = field(default_factory=list)
    records: list[tuple[int, ControlRecord]] = field(default_factory=list)
    acks: list[tuple[int, int, int]] = field(default_factory=list)
    in_flight_until_ms: int = 0

    def own(self, now_ms: int) -> int:
        """The broker's time as the gateway's clock has it."""
        return now_ms + self.ahead_ms

    def deliver(self, now_ms: int) -> None:
        """Control records and acknowledgements that have arrived."""
        own_ms = self.own(now_ms)
        for due_ms, record in [each for each in self.records if each[0] <= now_ms]:
            self.records.remove((due_ms, record))
            self.gate.hear(record, own_ms)
        for due_ms, append_ms, sent_ms in [each for each in self.acks if each[0] <= now_ms]:
            self.acks.remove((due_ms, append_ms, sent_ms))
            self.gate.acknowledged(append_ms, sent_ms, own_ms)
