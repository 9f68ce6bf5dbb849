"""From an OpenTelemetry `gen_ai.*` span to an event."""

from collections.abc import Mapping
from typing import Any

from tokenweir.events.read import from_json
from tokenweir.records.event import Event

# Operations that reach a model. Spans of agents, tools and workflows repeat what theirs have used.
INFERENCE = frozenset({"chat", "generate_content", "text_completion", "embeddings"})
# Names that the conventions have given up.
FORMER = {
    "gen_ai.usage.prompt_tokens": "gen_ai.usage.input_tokens",
    "gen_ai.usage.completion_tokens": "gen_ai.usage.output_tokens",
    "gen_ai.system": "gen_ai.provider.name",
}


def span_event(
    attributes: Mapping[str, Any],
    *,
    pool: str,
    tenant: str,
    request_id: str,
    user: str = "",
    id: str = "",
    age_ms: int | None = None,
    duration_ms: int = 0,
) -> Event | None:
    """What a span's attributes say of one attempt; None for a span that calls no model itself.

    `request_id` is the request's, or where there is none the span's own id; `age_ms` from the
    span's end to the sending. Input tokens include those of caches, output tokens reasoning.
    A span without usage becomes an event whose usage is not known. Raises `BadRecord`.
    """
    known = {FORMER.get(name, name): value for name, value in attributes.items()} | {
        name: value for name, value in attributes.items() if name not in FORMER
    }
    operation = known.get("gen_ai.operation.name", "chat")
    if operation not in INFERENCE:
        return None
    usage = {name: value for name, value in known.items() if name.startswith("gen_ai.usage.")}
    error = known.get("error.type")
    content = {
        "pool": pool,
        "tenant": tenant,
        "user": user or known.get("user.id") or known.get("enduser.id"),
        "request_id": request_id,
        "id": id,
        "age_ms": age_ms,
        "duration_ms": duration_ms,
        "operation": operation,
        "model": known.get("gen_ai.response.model") or known.get("gen_ai.request.model"),
        "provider_tier": known.get("openai.response.service_tier"),
        "usage": usage or None,
        "max_tokens": known.get("gen_ai.request.max_tokens"),
        "chars_prompt": _length(known, "gen_ai.input.messages"),
        "chars_streamed": _length(known, "gen_ai.output.messages", "gen_ai.output.text"),
        "error": error is not None,
        "reason": error,
    }
    return from_json(content).event


def _length(attributes: Mapping[str, Any], *names: str) -> int | None:
    """The characters of the first of these that is recorded; messages with their JSON around."""
    texts = (attributes[name] for name in names if isinstance(attributes.get(name), str))
    return next(map(len, texts), None)
