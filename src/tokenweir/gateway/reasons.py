"""Why a request was not admitted, as a value and as the error that a caller meets."""

from typing import Literal, NamedTuple

from tokenweir.errors import TokenweirError

Reason = Literal[
    "no_decision",  # nothing obeyed yet: no decision, or no acknowledgement (L6)
    "suspended",  # the entitlement is suspended
    "revoked",  # the entitlement is revoked
    "no_grant",  # nothing is granted, and starter pots are closed to it (L8)
    "priority",  # the class is below the pool's priority threshold
    "class_refused",  # the tier's action for the class is to refuse
    "floor_only",  # the tier's action leaves the class its floor, and the floor is used up
    "breaker",  # the breaker is open, or half open with its probe budget used up
    "sequences",  # all sequences of the lease are occupied
    "kv_bytes",  # the KV bytes of the lease do not suffice
    "quota",  # the ceiling of the quota's window is reached (Q1)
    "tokens",  # the lease is used up
    "no_lease",  # no lease here, and no starter pot
    "pot",  # the starter pot, or the tenant's allowance of it, is used up (L8)
    "silent",  # the control plane is silent and the lease has run out (L7)
    "queue_full",  # too many requests wait already
    "abandoned",  # the caller went away while it waited
    "closing",  # this gateway is closing
]
# What a retry elsewhere or later may mend is the service's fault, not the caller's pace.
UNAVAILABLE: frozenset[Reason] = frozenset(
    {"no_decision", "breaker", "silent", "queue_full", "closing"}
)


class Denial(NamedTuple):
    """Not admitted now. `retry_ms` is when it may be; None: not known."""

    reason: Reason
    retry_ms: int | None
    may_wait: bool
    available: int = 0  # of what the reason names: tokens, sequences or bytes
    user: str = ""  # whose own quota it is; empty: the tenant's


class Refused(TokenweirError):
    """A request was not admitted: answer `status`, and `Retry-After` with `retry_after_s`.

    `needed` and `available` are in what the reason names: charged tokens, sequences or KV bytes.
    `user` is whose own quota it was; empty where the reason is the tenant's.
    """

    def __init__(
        self,
        *,
        pool: str,
        tenant: str,
        reason: Reason,
        retry_after_s: float,
        decision_id: str,
        needed: int,
        available: int,
        user: str = "",
    ) -> None:
        self.pool = pool
        self.tenant = tenant
        self.reason = reason
        self.retry_after_s = retry_after_s
        self.decision_id = decision_id
        self.needed = needed
        self.available = available
        self.user = user
        why = f"{reason} of user {user!r}" if user else reason
        super().__init__(
            f"{tenant!r} was refused by pool {pool!r}: {why} (needs {needed}, has {available}); "
            f"retry after {retry_after_s:g} s; decision {decision_id or 'none yet'}"
        )

    @property
    def status(self) -> int:
        """The HTTP status to answer: 503 when the service is at fault, else 429."""
        return 503 if self.reason in UNAVAILABLE else 429


class AlreadyEnded(TokenweirError):
    """A request was settled or cancelled twice, or after it had expired: it is charged once."""

    def __init__(self, id: str, status: str) -> None:
        self.id = id
        self.status = status
        super().__init__(f"request {id!r} has ended already ({status}); settle or cancel it once")


class Revoked(TokenweirError):
    """A running request's entitlement was revoked, and its callback had it cancelled.

    `lost_tokens` is what it had used by then, in charged tokens.
    """

    def __init__(self, id: str, lost_tokens: int) -> None:
        self.id = id
        self.lost_tokens = lost_tokens
        super().__init__(
            f"request {id!r} was cancelled: its entitlement is revoked "
            f"({lost_tokens} charged tokens are lost); ask again later"
        )


class Overdue(TokenweirError, TimeoutError):
    """A request ran longer than the pool's longest request and was ended."""
