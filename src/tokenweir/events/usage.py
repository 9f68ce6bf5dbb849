"""The `usage` of an event, in whichever shape, as figures: unknown stays unknown (None)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tokenweir.errors import BadInput, BadRecord
from tokenweir.events.values import part, whole
from tokenweir.usage_shapes import Tokens, anthropic_tokens, openai_tokens, otel_tokens

OTEL = "gen_ai.usage."
DETAILS = ("prompt_tokens_details", "input_tokens_details")
ANTHROPIC = ("cache_read_input_tokens", "cache_creation_input_tokens")
OURS = ("tokens_uncached", "tokens_cached", "tokens_cache_write", "tokens_out")
INPUT = ("prompt_tokens", "input_tokens", f"{OTEL}input_tokens", "tokens_uncached")
OUTPUT = ("completion_tokens", "output_tokens", f"{OTEL}output_tokens", "tokens_out")
TOTAL = "total_tokens"
CACHES = (f"{OTEL}cache_read.input_tokens", f"{OTEL}cache_creation.input_tokens")
# What makes an object a usage; `total_tokens` alone does not say which kind its tokens are.
NAMES = (*INPUT, *OUTPUT, *ANTHROPIC, *OURS, *CACHES)


@dataclass(frozen=True, slots=True)
class Figures:
    """Tokens of one attempt so far; None is not known. `cache_write` is a part of `uncached`."""

    uncached: int | None = None
    cache_write: int = 0
    cached: int = 0
    out: int | None = None
    total_differs: bool = False  # the producer's total is not the sum of its parts


UNKNOWN = Figures()


def figures(usage: Mapping[str, Any] | None, operation: str) -> Figures:
    """What the usage says; raises `BadRecord` for a number that is none, or an unknown shape.

    A total counts only where one part is absent: it is then the difference. An output that is null
    is not known; one that is absent is 0 for embeddings, which have none.
    """
    if not usage:
        return UNKNOWN
    numbers = _numbers(usage)
    if not any(name in numbers for name in (*NAMES, TOTAL)):
        raise BadRecord(
            f"usage has {sorted(usage)[:8]}: the names of OpenAI, Anthropic, OpenTelemetry"
            " (gen_ai.usage.…) or ours (tokens_uncached, …) are allowed"
        )
    try:
        tokens = _shape(numbers)(numbers)
    except BadInput as error:
        raise BadRecord(f"usage: {error}") from error
    return _known(numbers, tokens, operation)


def _known(numbers: Mapping[str, Any], tokens: Tokens, operation: str) -> Figures:
    total = numbers.get(TOTAL)
    has_input = any(numbers.get(name) is not None for name in INPUT)
    has_output = any(numbers.get(name) is not None for name in OUTPUT)
    uncached = tokens.uncached if has_input else None
    out = tokens.out if has_output else None
    if has_input and not any(name in numbers for name in OUTPUT):
        out = _rest(total, tokens.input, 0 if operation == "embeddings" else None)
    if has_output and not any(name in numbers for name in INPUT):
        uncached = _rest(total, tokens.out + tokens.cached, None)
    differs = has_input and has_output and total is not None and total != tokens.total
    return Figures(uncached, tokens.cache_write, tokens.cached, out, differs)


def _rest(total: int | None, known: int, otherwise: int | None) -> int | None:
    return total - known if total is not None and total >= known else otherwise


def _numbers(usage: Mapping[str, Any]) -> dict[str, Any]:
    """The known names of a usage, their numbers checked."""
    found: dict[str, Any] = {
        name: whole(f"usage.{name}", usage[name]) for name in (*NAMES, TOTAL) if name in usage
    }
    for name in DETAILS:
        details = part(f"usage.{name}", usage.get(name))
        if details:
            found[name] = {
                inner: whole(f"usage.{name}.{inner}", details.get(inner))
                for inner in ("cached_tokens", "cache_write_tokens")
            }
    return found


def _shape(numbers: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], Tokens]:
    if any(name.startswith(OTEL) for name in numbers):
        return otel_tokens
    if any(name in numbers for name in OURS):
        return _our_tokens
    if any(name in numbers for name in ANTHROPIC):
        return anthropic_tokens
    return openai_tokens


def _our_tokens(numbers: Mapping[str, Any]) -> Tokens:
    uncached, cached, written, out = (numbers.get(name) or 0 for name in OURS)
    return Tokens(uncached=uncached, cached=cached, cache_write=written, out=out)
