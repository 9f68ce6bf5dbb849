"""Which decision is whole: its roster and all parts of its leases are there (PROTOCOL L9)."""

from tokenweir.records.control import Barred, ControlDecision, GatewayLeases, Roster


class Assembly:
    """The newest control records of one pool, for one gateway. Older and repeated ones are
    ignored, in whatever order they come.
    """

    __slots__ = ("barred", "decision", "parts", "roster")

    def __init__(self) -> None:
        self.decision: ControlDecision | None = None
        self.roster: Roster | None = None
        self.barred: Barred | None = None
        self.parts: dict[int, GatewayLeases] = {}

    def decide(self, decision: ControlDecision) -> bool:
        """Take a decision; False when it is not newer than the one that is here."""
        if self.decision is not None and decision.at_ms <= self.decision.at_ms:
            return False
        self.decision = decision
        return True

    def lease(self, leases: GatewayLeases) -> bool:
        """Take one part of the leases; False when it is not newer."""
        held = self.parts.get(leases.part)
        newest = self.decision.at_ms if self.decision is not None else 0
        if leases.at_ms < newest or (held is not None and leases.at_ms <= held.at_ms):
            return False
        self.parts[leases.part] = leases
        return True

    def enrol(self, roster: Roster) -> bool:
        """Take a roster; False when it is not newer."""
        if self.roster is not None and roster.spec_version <= self.roster.spec_version:
            return False
        self.roster = roster
        return True

    def bar(self, barred: Barred) -> bool:
        """Take who is barred; False when it is not newer."""
        if self.barred is not None and barred.at_ms <= self.barred.at_ms:
            return False
        self.barred = barred
        return True

    def whole(self) -> tuple[GatewayLeases, ...] | None:
        """All parts of the newest decision's leases; None while something is missing."""
        decision, roster = self.decision, self.roster
        if decision is None or roster is None or roster.spec_version != decision.spec_version:
            return None
        parts = tuple(self.parts.get(part) for part in range(decision.parts))
        found = tuple(part for part in parts if part is not None)
        if len(found) != decision.parts or any(p.at_ms != decision.at_ms for p in found):
            return None
        return found or None
