"""One request: what it asks for, what it holds, and what it has produced."""

from typing import TYPE_CHECKING, Literal

from tokenweir.errors import BadInput
from tokenweir.records.usage import Flow

if TYPE_CHECKING:
    from tokenweir.gateway.bucket import Bucket
    from tokenweir.gateway.ceilings import Window
    from tokenweir.gateway.reasons import Denial
    from tokenweir.gateway.subject import Subject

MOST = 1 << 50  # tokens or bytes: larger numbers are mistakes
_NUMBERS = ("sequences", "kv_bytes", "attempt")
_NAMES = ("tenant", "user", "model", "operation", "provider_tier", "id")

NOTHING = (0, 0, 0)  # tokens: uncached, cached, out

State = Literal["new", "waiting", "admitted", "suspended", "ended"]


class Request:
    """A request from asking to its end.

    `estimate` is in charged tokens; without one it comes from `input_tokens` and the output that
    the tenant's requests to the model had before, `max_tokens` at most, with the pool's weights.
    """

    __slots__ = (
        "answer",
        "asked_ms",
        "attempt",
        "bucket",
        "cached",
        "cost",
        "deadline_ms",
        "decision_ms",
        "denial",
        "dirty",
        "epoch",
        "estimate",
        "expected_out",
        "flow",
        "gateway",
        "held",
        "input_tokens",
        "kv_bytes",
        "label",
        "level",
        "max_tokens",
        "model",
        "operation",
        "out",
        "pot_epoch",
        "pot_share",
        "priority",
        "provider_tier",
        "sent",
        "sequences",
        "started_ms",
        "state",
        "status",
        "subject",
        "tenant",
        "timeout_ms",
        "uncached",
        "user",
        "wait_ms",
        "windows",
    )

    subject: "Subject"
    sent: tuple[int, int, int]  # of what it has produced: told in earlier rows
    asked_ms: int
    started_ms: int
    deadline_ms: int  # of the wait
    label: str | int  # the caller's id for it, else its number at the gateway
    gateway: str
    answer: int  # of a wait: which of the decisions in time answers it; 0: it was there (L8)
    decision_ms: int
    epoch: int  # of the bucket when it was charged, as `pot_epoch`
    pot_epoch: int
    level: int  # among those that wait: the lowest are dropped first
    expected_out: int  # tokens of output that its estimate holds
    bucket: "Bucket | None"
    pot_share: "Bucket | None"
    denial: "Denial | None"
    windows: "tuple[Window, ...]"

    def __init__(
        self,
        tenant: str,
        user: str = "",
        estimate: int | None = None,
        input_tokens: int | None = None,
        max_tokens: int | None = None,
        priority: int = 2,
        model: str = "",
        operation: str = "",
        provider_tier: str = "",
        flow: Flow = "online",
        sequences: int = 1,
        kv_bytes: int = 0,
        timeout_ms: int | None = None,
        id: str = "",
        attempt: int = 1,
    ) -> None:
        self.tenant = tenant
        self.user = user
        self.estimate = estimate
        self.input_tokens = input_tokens
        self.max_tokens = max_tokens
        self.priority = priority
        self.model = model
        self.operation = operation
        self.provider_tier = provider_tier
        self.flow = flow
        self.sequences = sequences
        self.kv_bytes = kv_bytes
        self.timeout_ms = timeout_ms
        self.label = id
        self.attempt = attempt
        self.state: State = "new"
        self.status = "new"
        # Milli-tokens asked for; milli-tokens charged to bucket, pot and windows now.
        self.cost = self.held = 0
        self.bucket = self.pot_share = self.denial = None
        self.windows = ()
        self.dirty = False
        self.wait_ms = 0
        self.uncached = self.cached = self.out = 0  # produced so far
        self.sent = NOTHING

    @property
    def id(self) -> str:
        """The caller's id for it; without one the gateway's own, and its number there."""
        label = self.label
        return label if isinstance(label, str) else f"{self.gateway}/{label}"


def tokens(field: str, value: object) -> int:
    """`value` as a number of tokens; raises `BadInput` for anything but a whole number ≥ 0."""
    if type(value) is int and 0 <= value <= MOST:
        return value
    raise BadInput(f"{field} is {value!r}; allowed is a whole number from 0 to {MOST}")


def checked(request: Request) -> None:
    """Raise `BadInput` for the first field that a report could not carry."""
    if not _plain(request):
        _complain(request)


def _plain(request: Request) -> bool:
    """All is as it should be: the usual case, as cheap as it can be told."""
    estimate = request.estimate
    return (
        type(request.tenant) is type(request.user) is type(request.model) is str
        and type(request.operation) is type(request.provider_tier) is type(request.label) is str
        and type(estimate) is type(request.sequences) is type(request.kv_bytes) is int
        and type(request.attempt) is int
        and 0 <= estimate <= MOST
        and 0 <= request.sequences <= MOST
        and 0 <= request.kv_bytes <= MOST
        and 0 <= request.attempt <= MOST
        and request.priority in (1, 2, 3)
        and request.flow in ("online", "batch")
    )


def _complain(request: Request) -> None:
    for field in _NUMBERS:
        tokens(field, getattr(request, field))
    for field in _NAMES:
        if type(value := getattr(request, field)) is not str:
            raise BadInput(f"{field} is {value!r}; allowed is a string")
    for field in ("estimate", "input_tokens", "max_tokens"):
        if (value := getattr(request, field)) is not None:
            tokens(field, value)
    if request.estimate is None and request.input_tokens is None:
        raise BadInput("give estimate= in charged tokens, or input_tokens= and max_tokens=")
    if request.priority not in (1, 2, 3):
        raise BadInput(f"priority is {request.priority!r}; allowed are 1, 2 and 3")
    if request.flow not in ("online", "batch"):
        raise BadInput(f"flow is {request.flow!r}; allowed are 'online' and 'batch'")
