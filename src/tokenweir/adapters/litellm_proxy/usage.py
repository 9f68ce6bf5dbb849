"""Usage in LiteLLM's shapes, and what a chunk of a stream holds. No LiteLLM is imported."""

from collections.abc import Mapping
from typing import Any

from tokenweir.usage_shapes import Tokens, anthropic_tokens, openai_tokens

_SAID = ("reasoning_content", "refusal")
_MESSAGES = b"event: content_block_delta"


def tokens_of(said: object) -> Tokens | None:
    """What a usage says; None: there is none. Raises `BadInput` for figures that cannot be.

    LiteLLM counts cached and written tokens inside `prompt_tokens`, whatever the provider does;
    only answers of `/v1/messages` have them beside `input_tokens`.
    """
    usage = plain(said)
    if usage.get("prompt_tokens") is None and usage.get("input_tokens") is None:
        return None
    if "cache_read_input_tokens" in usage and usage.get("prompt_tokens") is None:
        return anthropic_tokens(usage)
    details = plain(usage.get("prompt_tokens_details") or usage.get("input_tokens_details"))
    cached = details.get("cached_tokens") or usage.get("cache_read_input_tokens")
    written = (
        details.get("cache_creation_tokens")
        or details.get("cache_write_tokens")
        or usage.get("cache_creation_input_tokens")
    )
    inside = {"cached_tokens": cached, "cache_write_tokens": written}
    return openai_tokens({**usage, "prompt_tokens_details": inside})


def usage_in(answer: object) -> object:
    """The usage in an answer, in a chunk, or in the last event of the responses API; or None."""
    found = get(answer, "usage")
    return get(get(answer, "response"), "usage") if found is None else found


def piece(chunk: object) -> tuple[int, int]:
    """Pieces of text in a chunk, and their length in bytes.

    Each holds a token at least, so it is never more than what the model has produced.
    """
    if isinstance(chunk, bytes):
        return chunk.count(_MESSAGES), 0
    choices = get(chunk, "choices")
    if isinstance(choices, list):
        texts = [text for choice in choices for text in _texts(choice)]
    else:
        delta = get(chunk, "delta")
        texts = [delta] if isinstance(delta, str) and delta else []
    return len(texts), sum(len(text.encode("utf-8", "replace")) for text in texts)


def get(holder: object, name: str) -> Any:
    """A field of a mapping or of an object; None where it has none."""
    if isinstance(holder, Mapping):
        return holder.get(name)
    if not hasattr(type(holder), "__pydantic_fields__"):
        return getattr(holder, name, None)
    # Pydantic takes 20 µs to say that a field is not there, and this is asked of every chunk.
    fields = holder.__dict__
    if name in fields:
        return fields[name]
    return (getattr(holder, "__pydantic_extra__", None) or {}).get(name)


def plain(value: object) -> Mapping[str, Any]:
    """A mapping, whether it was one or an object; empty for anything else."""
    if isinstance(value, Mapping):
        return value
    dump = getattr(value, "model_dump", None)
    return dump() if callable(dump) else {}


def _texts(choice: object) -> list[str]:
    """What a choice says: one text, if any."""
    delta = get(choice, "delta") or get(choice, "message")
    content = get(delta, "content")
    if isinstance(content, str) and content:
        return [content]  # what most chunks have, and nothing else
    calls = get(delta, "tool_calls") or ()
    parts = (
        *(get(delta, name) for name in _SAID),
        get(choice, "text"),
        *(get(get(call, "function"), "arguments") for call in calls),
    )
    text = "".join(part for part in parts if isinstance(part, str))
    return [text] if text else []
