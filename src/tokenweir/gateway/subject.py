"""What a gateway knows of one tenant in one pool."""

from collections import Counter

from tokenweir.gateway.bucket import Bucket
from tokenweir.gateway.ceilings import Ceiling, Meter
from tokenweir.gateway.reasons import Reason
from tokenweir.records.control import BarredReason
from tokenweir.records.spec import OnSilence


class _Near:
    """What every request reads, side by side in memory: slots lie in the order of their names."""

    __slots__ = (
        "admitted",
        "barred",
        "bucket",
        "charged",
        "in_flight",
        "kv_bytes",
        "leased",
        "limited",
        "rank",
        "sequences",
        "waiting",
    )


class Subject(_Near):
    """A tenant's lease, what it occupies, and what it met. All unknown names share one."""

    __slots__ = (
        "allowance",
        "announced",
        "barred_until_ms",
        "burst",
        "everybody",
        "first_ms",
        "floor",
        "kv_limit",
        "lost",
        "meter",
        "name",
        "on_silence",
        "rate",
        "refused",
        "sequence_limit",
        "suspended",
        "user_meters",
        "would_refuse",
    )

    def __init__(self, name: str, rank: int, on_silence: OnSilence | None) -> None:
        self.name = name
        self.rank = rank
        self.on_silence = on_silence  # None: as its class
        self.barred: BarredReason | None = None
        self.barred_until_ms = 0
        # The lease as it was sent; the bucket flows as the stance and the phase let it.
        self.leased = False
        self.limited = False  # by more than tokens: sequences, KV bytes, or a quota
        self.rate = self.burst = self.floor = 0
        self.sequence_limit = self.kv_limit = -1
        self.bucket = Bucket()
        self.allowance: Bucket | None = None  # of the starter pot
        self.meter: Meter | None = None
        self.user_meters: dict[str, Meter] | None = None
        self.everybody: list[Ceiling] | None = None  # of users without ceilings of their own
        self.announced = False  # that it has no lease has been reported (R3)
        self.sequences = self.kv_bytes = self.in_flight = self.waiting = 0
        self.first_ms = 0  # pool time of the first admission
        self.charged = 0  # milli-tokens since the gateway's start, estimates included
        self.admitted = 0
        self.suspended = 0  # requests, now
        self.lost = 0  # charged tokens of revoked work that was cancelled
        self.refused: Counter[Reason] = Counter()
        self.would_refuse: Counter[Reason] = Counter()  # in shadow mode

    @property
    def spent(self) -> int:
        """Charged tokens since the gateway's start, estimates included."""
        return self.charged // 1000

    @property
    def idle(self) -> bool:
        """Nothing is in flight, waits, or is owed: it may be forgotten."""
        return not (
            self.leased or self.in_flight or self.waiting or self.suspended or self.bucket.level < 0
        )
