"""What an answer used, as far as it says so, and what it is seen to have produced."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tokenweir.adapters.openai.ask import Kind
from tokenweir.errors import BadInput
from tokenweir.gateway.request import MOST
from tokenweir.usage_shapes import openai_tokens


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the backend reports them: 0 is 0, None is not known."""

    uncached: int | None
    cached: int
    out: int | None
    cache_write: int = 0


UNKNOWN = Usage(None, 0, None)


def usage_of(kind: Kind, answer: Mapping[str, Any]) -> Usage:
    """The usage in an answer, or in the chunk or event of a stream that has one.

    Raises `BadInput` for figures that cannot be; what is absent or null is not known.
    """
    usage = answer.get("usage")
    if usage is None:
        return UNKNOWN
    if not isinstance(usage, dict):
        raise BadInput(f"usage is {usage!r:.60}; allowed is a mapping")
    tokens = openai_tokens(usage)
    if tokens.total > MOST:
        raise BadInput(f"usage has {tokens.total} tokens; allowed are at most {MOST}")
    knows_input = _has(usage, "prompt_tokens", "input_tokens")
    knows_output = kind == "embeddings" or _has(usage, "completion_tokens", "output_tokens")
    return Usage(
        uncached=tokens.uncached if knows_input else None,
        cached=tokens.cached if knows_input else 0,
        out=tokens.out if knows_output else None,
        cache_write=tokens.cache_write if knows_input else 0,
    )


def told(kind: Kind, body: bytes | bytearray) -> tuple[Usage, str]:
    """What a whole answer says it used, and why that cannot be used if it cannot."""
    try:
        return usage_of(kind, json.loads(body)), "no_usage"
    except (ValueError, AttributeError):
        return UNKNOWN, "no_usage"
    except BadInput:
        return UNKNOWN, "bad_usage"


def text_of(answer: Mapping[str, Any]) -> str:
    """What an answer's choices or output say, to estimate their tokens by."""
    parts = (answer.get("choices"), answer.get("output"))
    return "".join(text for part in parts for text in _texts(part))


def _texts(value: object, name: str = "") -> Iterator[str]:
    if isinstance(value, str) and name in _SAID:
        yield value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _texts(part, key)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part, name)


# Where models put what they say, in answers, in chunks and in items of output.
_SAID = frozenset(
    {"content", "text", "reasoning", "reasoning_content", "refusal", "arguments", "summary"}
)


def _has(usage: Mapping[str, Any], *names: str) -> bool:
    return any(usage.get(name) is not None for name in names)
