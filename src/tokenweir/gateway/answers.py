"""A refusal as an HTTP answer: pure, so that every adapter gives the same one.

`answer(refused, gateway.standing(pool, tenant, user))` has the status, the header fields and the
body in OpenAI's error form; `rate_limit(standing)` is for the answers of admitted requests.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from tokenweir.gateway.headers import Header, rate_limit
from tokenweir.gateway.reasons import Reason, Refused
from tokenweir.gateway.standing import Budget, Standing

# OpenAI's `type` and `code` for what its clients tell apart; every other refusal is a rate limit.
_KINDS: Mapping[Reason, tuple[str, str]] = {
    "quota": ("insufficient_quota", "insufficient_quota"),
    "suspended": ("insufficient_quota", "entitlement_suspended"),
    "revoked": ("insufficient_quota", "entitlement_revoked"),
    "sequences": ("requests", "rate_limit_exceeded"),
}
_RATE = ("tokens", "rate_limit_exceeded")
_FAULT = ("server_error", "service_unavailable")
_WORDS: Mapping[Reason, str] = {
    "no_decision": "the gateway has no decision to obey yet",
    "suspended": "the entitlement is suspended; ask whoever owns the pool",
    "revoked": "the entitlement is revoked; ask whoever owns the pool",
    "no_grant": "nothing is granted to this tenant now",
    "priority": "the pool is above its water level, and this class waits for higher ones",
    "class_refused": "the pool is above its water level, and this class is refused",
    "floor_only": "the pool is above its water level, and this class has only its floor",
    "breaker": "the pool is over its capacity, and its breaker is open",
    "sequences": "too many of this tenant's requests run at once",
    "kv_bytes": "this tenant's running requests hold too much of the KV cache",
    "quota": "the quota is used up",
    "tokens": "the tenant's lease of tokens is used up",
    "no_lease": "the tenant has no lease here yet",
    "pot": "the starter pot is used up until a lease comes",
    "silent": "the control plane is silent, and the lease has run out",
    "queue_full": "too many requests wait already",
    "abandoned": "the caller went away",
    "closing": "this gateway is closing",
}
# A retry by itself mends nothing here within the time that a client's library waits.
_HOPELESS: frozenset[Reason] = frozenset({"suspended", "revoked"})
_PATIENCE_S = 60  # OpenAI's clients obey a Retry-After up to here (3.57: 120), else guess


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer: lower-case header names, and the body as JSON values."""

    status: int
    headers: tuple[Header, ...]
    body: Mapping[str, Any]

    @property
    def content(self) -> bytes:
        """The body as it is sent."""
        return json.dumps(dict(self.body), ensure_ascii=False).encode("utf-8", "replace")


def answer(refused: Refused, standing: Standing) -> Answer:
    """What to answer to a request that was refused to this tenant."""
    return Answer(
        refused.status,
        (
            *_retry(refused),
            *rate_limit(standing),
            ("tokenweir-reason", refused.reason),
            ("content-type", "application/json"),
        ),
        MappingProxyType({"error": error(refused, standing)}),
    )


def error(refused: Refused, standing: Standing) -> dict[str, Any]:
    """The refusal in OpenAI's error form, with our figures beside it."""
    kind, code = _KINDS.get(refused.reason, _FAULT if refused.status == 503 else _RATE)
    figures = {
        "reason": refused.reason,
        "pool": refused.pool,
        "tenant": refused.tenant,
        "user": refused.user or None,
        "tier": standing.tier,
        "decision_id": refused.decision_id,
        "retry_after_s": round(refused.retry_after_s, 3),
        "needed": refused.needed,
        "available": refused.available,
        "owed": standing.owed,
        "raise_limit_url": standing.raise_limit_url or None,
    }
    quota = _ended(refused, standing)
    if quota is not None:
        figures |= {"window_id": quota.window_id, "window_ends": _instant(quota.ends_ms)}
    message = _message(refused, standing, quota)
    return {"message": message, "type": kind, "param": None, "code": code, **figures}


def _retry(refused: Refused) -> tuple[Header, ...]:
    seconds = max(math.ceil(refused.retry_after_s), 1)
    found = [("retry-after", str(seconds))]
    if refused.reason in _HOPELESS or seconds > _PATIENCE_S:
        found.append(("x-should-retry", "false"))
    else:
        found.append(("retry-after-ms", str(max(math.ceil(refused.retry_after_s * 1000), 1))))
    return tuple(found)


def _ended(refused: Refused, standing: Standing) -> Budget | None:
    """The quota that refused: the user's own, or the tenant's."""
    name = "user-quota" if refused.user else "quota"
    found = (budget for budget in standing.quotas if budget.name == name)
    return next(found, None) if refused.reason == "quota" else None


def _message(refused: Refused, standing: Standing, quota: Budget | None) -> str:
    why = _WORDS.get(refused.reason, refused.reason)
    whose = f" (that of user {refused.user!r} alone)" if refused.user else ""
    parts = [f"Pool {refused.pool!r} refused {refused.tenant!r}: {why}{whose}."]
    if refused.needed:
        parts.append(f"Needed {refused.needed}, available {refused.available}.")
    if quota is not None:
        parts.append(f"Window {quota.window_id} ends at {_instant(quota.ends_ms)}.")
    if refused.reason not in _HOPELESS:
        parts.append(f"Retry after {max(math.ceil(refused.retry_after_s), 1)} s.")
    if standing.raise_limit_url:
        parts.append(f"Raise the limit at {standing.raise_limit_url}.")
    return " ".join(parts)


def _instant(ms: int) -> str:
    moment = datetime.fromtimestamp(ms / 1000, UTC)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
