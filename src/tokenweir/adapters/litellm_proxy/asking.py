"""What a request to the LiteLLM proxy asks for, and the same as the degrade ladder plans it."""

from collections.abc import Mapping, MutableMapping
from typing import Any

from tokenweir.adapters.openai.ask import Ask, Kind, ask_of, bytes_by_four, ceiling_name
from tokenweir.gateway.ladder import Canned, Plan

# LiteLLM's call types that use tokens; all others pass unmetered.
_KINDS: Mapping[str, Kind] = {
    "acompletion": "chat",
    "completion": "chat",
    "atext_completion": "completions",
    "text_completion": "completions",
    "aresponses": "responses",
    "responses": "responses",
    "aembedding": "embeddings",
    "embeddings": "embeddings",
    "anthropic_messages": "chat",
}


def read(call_type: str, data: Mapping[str, Any]) -> Ask | None:
    """What a request asks for; None: nothing that uses tokens.

    Raises `BadInput` that names the field for one that cannot be.
    """
    kind = _KINDS.get(call_type)
    if kind is None:
        return None
    model = data.get("model")
    return ask_of(kind, {**data, "model": model if isinstance(model, str) else ""}, bytes_by_four)


def apply(planned: Plan, ask: Ask, data: MutableMapping[str, Any]) -> None:
    """Change a request as planned; LiteLLM gives a canned text as the answer itself."""
    if planned.model != ask.model:
        data["model"] = planned.model
    if planned.max_tokens != ask.max_tokens:
        data[ceiling_name(ask)] = planned.max_tokens
    if planned.service_tier:
        data["service_tier"] = planned.service_tier
    text = canned(planned)
    if text is not None:
        data["mock_response"] = text


def canned(planned: Plan) -> str | None:
    """The text that answers instead of a model, if the plan has one."""
    return next((step.text for step in planned.replies if isinstance(step, Canned)), None)
