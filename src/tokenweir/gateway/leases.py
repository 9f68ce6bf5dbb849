"""The leases that a gateway obeys, and what is left of them when they run out (L1, L5, L7)."""

from collections.abc import Callable, Sequence
from typing import Literal

from tokenweir.gateway.bucket import Bucket
from tokenweir.gateway.stance import Stance
from tokenweir.gateway.subject import Subject
from tokenweir.records.control import GatewayLeases

Phase = Literal["none", "lease", "floor", "ended"]
NEVER = 1 << 62


class Leases:
    """All leases of one gateway in one pool: they are given, and end, together.

    The phase goes from lease to floor to ended as pool time passes `turns_ms`; only a new record
    brings it back.
    """

    __slots__ = (
        "at_ms",
        "expires_ms",
        "floor_expires_ms",
        "interval_ms",
        "late_ms",
        "leased",
        "phase",
        "pot",
        "pot_kv_limit",
        "pot_rate",
        "pot_sequence_limit",
        "rates",
        "stances",
        "timely",
        "timely_ms",
        "turns_ms",
    )

    def __init__(self, stances: Sequence[Stance], interval_ms: int) -> None:
        self.stances = stances
        self.interval_ms = interval_ms
        self.at_ms = 0  # the decision that is obeyed completely; 0: none
        self.late_ms = 0  # after its boundary, the decision that is obeyed was
        self.timely = 0  # decisions obeyed within an interval of their boundaries
        self.timely_ms = 0  # own time when the newest of them was first obeyed
        self.expires_ms = self.floor_expires_ms = 0
        self.turns_ms = NEVER
        self.phase: Phase = "none"
        self.leased: dict[str, Subject] = {}
        self.pot = Bucket()
        self.pot_rate = 0
        self.pot_sequence_limit = self.pot_kv_limit = -1  # of all who have no lease; -1: none
        self.rates = 0  # of all leases here and the pot, milli-tokens/s

    def obey(
        self,
        parts: Sequence[GatewayLeases],
        meet: Callable[[str], Subject],
        now_ms: int,
        pool_ms: int,
    ) -> None:
        """Obey these leases from now on; a tenant that is absent has none any more (L9).

        `turn` must have been called for this moment.
        """
        before, phase_before = self.leased, self.phase
        self._read(parts, meet)
        self.late_ms = max(pool_ms - self.at_ms, 0)
        if self.late_ms <= self.interval_ms:
            self.timely, self.timely_ms = self.timely + 1, now_ms
        self.phase = self._phase_at(pool_ms)
        self.turns_ms = self._turns()
        for name, subject in before.items():
            if name not in self.leased:
                subject.leased = False
                subject.bucket.restart(now_ms, 0, 0)
        for name, subject in self.leased.items():
            goes_on = phase_before == self.phase and name in before
            self._flow(subject.bucket, now_ms, self._terms(subject), goes_on)
        self._flow(self.pot, now_ms, self._pot_terms(parts), phase_before == self.phase)

    def turn(self, now_ms: int, pool_ms: int) -> None:
        """Go on to the next phase if pool time has passed the end of this one (L7)."""
        while pool_ms >= self.turns_ms:
            # Up to its end the old rate flowed; what is left of its burst is lost.
            moment_ms = now_ms - (pool_ms - self.turns_ms)
            self.phase = "floor" if self.phase == "lease" else "ended"
            self.turns_ms = self._turns()
            for subject in self.leased.values():
                subject.bucket.restart(moment_ms, *self._terms(subject))
            self.pot.restart(moment_ms, 0, 0)
            self.pot_rate = 0

    def retune(self, stances: Sequence[Stance], interval_ms: int, now_ms: int) -> None:
        """The leases stay; what the classes may do with them has changed."""
        self.stances, self.interval_ms = stances, interval_ms
        for subject in self.leased.values():
            subject.bucket.renew(now_ms, *self._terms(subject))

    def forget(self, now_ms: int) -> None:
        """The leases are gone from the topic: nothing is obeyed any more."""
        for subject in self.leased.values():
            subject.leased = False
            subject.bucket.restart(now_ms, 0, 0)
        self.pot.restart(now_ms, 0, 0)
        self.leased, self.pot_rate, self.rates = {}, 0, 0
        self.phase, self.turns_ms, self.at_ms = "none", NEVER, 0

    def _read(self, parts: Sequence[GatewayLeases], meet: Callable[[str], Subject]) -> None:
        self.at_ms = parts[0].at_ms
        self.expires_ms = min(part.expires_ms for part in parts)
        self.floor_expires_ms = min(part.floor_expires_ms for part in parts)
        self.leased = {}
        self.rates = parts[0].pot_rate
        self.pot_sequence_limit = parts[0].pot_sequences
        self.pot_kv_limit = parts[0].pot_kv_bytes
        for part in parts:
            columns = (part.tenant, part.rate, part.burst, part.floor)
            limits = (part.sequences, part.kv_bytes)
            for name, rate, burst, floor, sequences, kv in zip(*columns, *limits, strict=True):
                self.leased[name] = subject = meet(name)
                subject.leased, subject.announced = True, False
                subject.rate, subject.burst, subject.floor = rate, burst, floor
                subject.sequence_limit, subject.kv_limit = sequences, kv
                subject.limited = sequences >= 0 or kv >= 0
                self.rates += rate

    def _phase_at(self, pool_ms: int) -> Phase:
        if pool_ms < self.expires_ms:
            return "lease"
        return "floor" if pool_ms < self.floor_expires_ms else "ended"

    def _turns(self) -> int:
        ends = {"lease": self.expires_ms, "floor": self.floor_expires_ms}
        return ends.get(self.phase, NEVER)

    def _terms(self, subject: Subject) -> tuple[int, int]:
        """The rate and burst that may flow now."""
        stance = self.stances[subject.rank]
        if self.phase == "lease" and stance.flow == "lease":
            return subject.rate, subject.burst
        on_silence = subject.on_silence or stance.on_silence
        silent = self.phase != "lease"
        if stance.flow == "none" or self.phase == "ended" or (silent and on_silence != "floor"):
            return 0, 0
        floor = subject.floor if silent else min(subject.rate, subject.floor)
        return floor, min(subject.burst, floor * self.interval_ms // 1000)

    def _pot_terms(self, parts: Sequence[GatewayLeases]) -> tuple[int, int]:
        # Part 0 alone carries the pot.
        self.pot_rate = parts[0].pot_rate if self.phase == "lease" else 0
        return self.pot_rate, parts[0].pot_burst

    @staticmethod
    def _flow(bucket: Bucket, now_ms: int, terms: tuple[int, int], goes_on: bool) -> None:
        change = bucket.renew if goes_on else bucket.restart
        change(now_ms, *terms)
