"""One pool at one gateway: the SDK's core. No clock and no I/O: time is passed in."""

from tokenweir.gateway import hearing, ledger, streams, suspend, waits
from tokenweir.gateway.admission import admit
from tokenweir.gateway.assembly import Assembly
from tokenweir.gateway.bucket import Bucket
from tokenweir.gateway.ceilings import Meter
from tokenweir.gateway.charge import UNKNOWN_WEIGHTS, asked
from tokenweir.gateway.clock import PoolClock
from tokenweir.gateway.estimates import Estimates
from tokenweir.gateway.gauges import gauges
from tokenweir.gateway.leases import Leases
from tokenweir.gateway.line import MOST_WAITING, Lines
from tokenweir.gateway.reasons import Denial
from tokenweir.gateway.report import LARGEST, Cut, Heading, reports
from tokenweir.gateway.request import Request
from tokenweir.gateway.rows import Gauge, Row
from tokenweir.gateway.stance import UNDECIDED, Stance
from tokenweir.gateway.subject import Subject
from tokenweir.records.control import BarredReason
from tokenweir.records.spec import CLASSES, RANK, UNKNOWN, OnSilence

INTERVAL_MS = 1_000  # until the first decision tells another
LONGEST_REQUEST_MS = 600_000


class PoolGate:
    """Admits, counts and reports the requests of one pool.

    Not thread-safe; no call waits. `now_ms` is one monotonic clock of the caller. After each call
    look at `next_ms`, when `serve` is due, and `hurry`, whether a report is (R3).
    """

    def __init__(
        self,
        pool: str,
        gateway: str,
        *,
        most_waiting: int = MOST_WAITING,
        largest_report: int = LARGEST,
    ) -> None:
        self.pool = pool
        self.gateway = gateway
        self.clock = PoolClock()
        self.assembly = Assembly()
        self.stances: tuple[Stance, ...] = (UNDECIDED,) * len(CLASSES)
        self.weights = UNKNOWN_WEIGHTS
        self.interval_ms = INTERVAL_MS
        self.longest_request_ms = LONGEST_REQUEST_MS
        self.decision_ms = 0
        self.tick_ms = -1  # own time at which `pool_ms` was looked up; -1: look again
        self.pool_ms: int | None = None
        self.shadow = False
        self.closing = False
        self.leases = Leases(self.stances, self.interval_ms)
        self.probe = Bucket()
        self.roster: dict[str, tuple[int, OnSilence | None]] = {}
        self.raise_limit: dict[str, str] = {}
        self.barred: dict[str, tuple[BarredReason, int]] = {}
        self.subjects: dict[str, Subject] = {}
        self.stranger = Subject(UNKNOWN, RANK["spot"], None)
        self.departed: list[Subject] = []  # that run something still, and are unknown now
        self.pot_sequences = self.pot_kv_bytes = 0  # occupied by requests from the pot
        self.meters: dict[tuple[str, str], Meter] = {}
        self.limited: list[Subject] = []
        self.holds: dict[Request, None] = {}  # in the order of their admission
        self.streaming: list[Request] = []
        self.rows: list[Row] = []
        self.user_weights: dict[tuple[str, str], int] = {}  # millionths; all others: 1
        self.lines = Lines(most_waiting, self.user_weights)
        self.dropped: list[Request] = []  # from the lines, and not told yet
        self.outputs = Estimates()
        self.revoked: list[Request] = []  # that run for tenants revoked since `take_revoked`
        self.suspended: dict[Request, int] = {}  # and from which pool time on each may go on
        self.resume_ms: int | None = None  # own time to look at them
        self.next_ms: int | None = None
        self.hurry = False
        self._sequence = 0
        self._number = 0
        self._largest = largest_report

    @property
    def decision_id(self) -> str:
        """The newest decision's id; empty before the first."""
        return f"{self.pool}@{self.decision_ms}" if self.decision_ms else ""

    def hear(self, record: hearing.ControlRecord, now_ms: int) -> None:
        """Take one control record; raises `BadRecord` for one that makes no sense."""
        hearing.hear(self, record, now_ms)

    def acknowledged(self, append_ms: int, sent_ms: int, now_ms: int) -> None:
        """A report that was sent at `sent_ms`, own time, was appended at `append_ms`."""
        self.clock.acknowledged(append_ms, sent_ms, now_ms)
        hearing.obey(self, now_ms)

    def meet(self, name: str) -> Subject:
        """The tenant of this name, or the one that all unknown names share."""
        return hearing.meet(self, name)

    def ask(self, request: Request, now_ms: int) -> None:
        """Decide: the request is then admitted, waiting, or ended (refused: see its denial)."""
        try:
            subject = self.subjects[request.tenant]
        except KeyError:
            subject = self.meet(request.tenant)
        request.subject = subject
        request.asked_ms = now_ms
        estimate = request.estimate
        request.cost = 1000 * (asked(self, request) if estimate is None else estimate)
        if not request.label:
            self._number += 1
            request.label, request.gateway = self._number, self.gateway
        if not (subject.leased or subject.announced):
            subject.announced = self.hurry = True
        if subject.waiting or self.closing:
            denial = waits.blocked(self, subject, now_ms) or admit(self, request, now_ms)
        else:
            denial = admit(self, request, now_ms)
        if denial is not None:
            waits.hold_back(self, request, denial, now_ms)

    def serve(self, now_ms: int) -> list[Request]:
        """Admit who may go now, refuse whose wait is over; returns both. Due at `next_ms`."""
        return waits.serve(self, now_ms)

    def abandon(self, request: Request, now_ms: int) -> None:
        """The caller went away: whatever the request holds is returned."""
        if request.state == "waiting":
            waits.dismiss(self, request, Denial("abandoned", None, False), now_ms)
        elif request.state == "admitted":
            ledger.cancel(self, request, now_ms, "abandoned")
        elif request.state == "suspended":
            suspend.cancel(self, request, now_ms)

    def take_revoked(self) -> list[Request]:
        """The requests that run for tenants that have been revoked: `suspend` or `revoke` them."""
        taken, self.revoked = self.revoked, []
        return [request for request in taken if request.state == "admitted"]

    def suspend(self, request: Request, now_ms: int) -> None:
        """Stop a request until its tenant may go on; `serve` returns it when it does."""
        suspend.suspend(self, request, now_ms)

    def revoke(self, request: Request, now_ms: int) -> None:
        """End a request whose tenant was revoked, whether it runs or is suspended."""
        suspend.cancel(self, request, now_ms)

    def promote(self, request: Request, priority: int, now_ms: int) -> None:
        """Give a request another priority, also while it waits."""
        if request.state == "waiting":
            self.lines.promote(request, priority, now_ms)
            self.next_ms = now_ms
        elif request.state == "new":
            request.priority = priority

    def wake(self, now_ms: int) -> None:
        """Something has changed: those who wait or are suspended may have a chance."""
        if self.suspended:
            self.resume_ms = self.next_ms = now_ms
        if self.lines.count:
            self.lines.touch_all(now_ms)
            self.next_ms = now_ms

    def expire(self, now_ms: int) -> list[Request]:
        """End what ran longer than the longest request; returns it, so that it can be stopped."""
        return ledger.expire(self, now_ms)

    def cut(self, now_ms: int, closing: bool = False) -> list[Cut]:
        """What has happened since the last cut, as reports to be sent in this order (R2)."""
        return self._packed(*self._taken(now_ms, closing))

    def _taken(self, now_ms: int, closing: bool) -> tuple[Heading, list[Row], list[Gauge]]:
        hearing.obey(self, now_ms)
        rows = [*self.rows, *streams.parts(self, now_ms)]
        self.rows.clear()  # it may be a list that is kept on disk too
        heading = Heading(self.pool, self.gateway, self.leases.at_ms, closing, now_ms)
        return heading, rows, gauges(self)

    def _packed(self, heading: Heading, rows: list[Row], gauges: list[Gauge]) -> list[Cut]:
        cuts = reports(heading, self._sequence + 1, rows, gauges, self._largest)
        self._sequence += len(cuts)
        return cuts

    def close(self, now_ms: int) -> list[Request]:
        """Admit nothing more: who waits is refused and returned, what is in flight ends as an
        estimate.
        """
        self.closing = True
        waiting = list(self.lines)
        for request in waiting:
            waits.dismiss(self, request, waits.CLOSING, now_ms)
        for request in tuple(self.holds):
            ledger.leave(self, request, now_ms, "cancelled", False, "closing")
        for request in tuple(self.suspended):
            ledger.cancel(self, request, now_ms, "closing")
        return waiting

    def forget(self, now_ms: int) -> None:
        """The leases are gone from the topic: nothing is obeyed any more."""
        self.tick_ms = -1
        self.leases.forget(now_ms)
