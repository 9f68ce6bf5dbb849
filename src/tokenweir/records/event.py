"""What a gateway in another language says of one request: one event, gathered into reports."""

from dataclasses import dataclass

from tokenweir.records.usage import Flow, Status


@dataclass(frozen=True, slots=True)
class Event:
    """What one attempt of a request has used so far, or that it was refused.

    Topic tokenweir.events.v1, any key that all events of a request share. Token counts are those of
    the whole attempt, not what came since its last event.
    """

    pool: str
    tenant: str
    user: str
    request_id: str
    attempt: int
    status: Status
    provisional: bool
    id: str
    age_ms: int | None
    time_ms: int | None
    model: str
    operation: str
    provider_tier: str
    reason: str
    flow: Flow
    priority: int
    tokens_uncached: int | None
    tokens_cache_write: int
    tokens_cached: int
    tokens_out: int | None
    chars_prompt: int | None
    chars_streamed: int | None
    max_tokens: int | None
    refused_tokens: int
    error: bool
    kv_bytes: int
    wait_ms: int
    duration_ms: int
    decision: int
