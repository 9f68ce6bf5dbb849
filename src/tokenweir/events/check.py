"""What an event must be, in whichever form it came."""

from tokenweir.errors import BadRecord
from tokenweir.records.event import Event

# A sum of these over half a second stays within what the control plane believes of a report.
MOST_TOKENS = 10**8
MOST_MS = 10**9
LIMITS: dict[str, tuple[int, int]] = {
    "attempt": (1, 10**6),
    "priority": (1, 3),
    "age_ms": (0, 2**53),
    "time_ms": (0, 2**53),
    "tokens_uncached": (0, MOST_TOKENS),
    "tokens_cache_write": (0, MOST_TOKENS),
    "tokens_cached": (0, MOST_TOKENS),
    "tokens_out": (0, MOST_TOKENS),
    "chars_prompt": (0, MOST_TOKENS),
    "chars_streamed": (0, MOST_TOKENS),
    "max_tokens": (0, MOST_TOKENS),
    "refused_tokens": (0, MOST_TOKENS),
    "kv_bytes": (0, 10**13),
    "wait_ms": (0, MOST_MS),
    "duration_ms": (0, MOST_MS),
    "decision": (0, 2**53),
}


def checked(event: Event) -> Event:
    """The event; raises `BadRecord` that names the field, the value and what is allowed."""
    for name in ("pool", "tenant", "request_id"):
        if not getattr(event, name):
            raise BadRecord(f"{name} is missing: every event needs pool, tenant and request_id")
    if "/" in event.pool:
        raise BadRecord(f"pool is {event.pool!r}: a name without a slash is allowed")
    for name, (least, most) in LIMITS.items():
        value = getattr(event, name)
        if value is not None and not least <= value <= most:
            raise BadRecord(f"{name} is {value}: {least} to {most} is allowed")
    written, uncached = event.tokens_cache_write, event.tokens_uncached
    if uncached is not None and written > uncached:
        raise BadRecord(
            f"tokens_cache_write is {written}: at most tokens_uncached, {uncached}, is allowed"
        )
    return event
