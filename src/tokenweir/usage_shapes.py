"""Usage as backends report it, in one shape: which tokens are input is said differently by each.

OpenAI and OpenTelemetry count cached tokens inside the input, Anthropic beside it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tokenweir.errors import BadInput


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of one attempt. `uncached` includes what was written to a cache, as on the wire."""

    uncached: int
    cached: int
    cache_write: int
    out: int

    @property
    def input(self) -> int:
        """All input tokens."""
        return self.uncached + self.cached

    @property
    def plain(self) -> int:
        """Input tokens that no cache served and none was written with."""
        return self.uncached - self.cache_write

    @property
    def total(self) -> int:
        """Input and output, computed from the parts, whatever total the backend gave."""
        return self.input + self.out


def openai_tokens(usage: Mapping[str, Any]) -> Tokens:
    """From `usage` of the chat completions or the responses API: cached tokens lie inside."""
    total = _count(usage, "prompt_tokens", "input_tokens")
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or {}
    cached, written = _count(details, "cached_tokens"), _count(details, "cache_write_tokens")
    return _inside(total, cached, written, _count(usage, "completion_tokens", "output_tokens"))


def otel_tokens(attributes: Mapping[str, Any]) -> Tokens:
    """From a span's `gen_ai.usage.…` attributes: cache reads and writes lie inside the input."""
    return _inside(
        _count(attributes, "gen_ai.usage.input_tokens"),
        _count(attributes, "gen_ai.usage.cache_read.input_tokens"),
        _count(attributes, "gen_ai.usage.cache_creation.input_tokens"),
        _count(attributes, "gen_ai.usage.output_tokens"),
    )


def anthropic_tokens(usage: Mapping[str, Any]) -> Tokens:
    """From `usage` of the messages API: cache reads and writes lie beside `input_tokens`."""
    written = _count(usage, "cache_creation_input_tokens")
    return Tokens(
        uncached=_count(usage, "input_tokens") + written,
        cached=_count(usage, "cache_read_input_tokens"),
        cache_write=written,
        out=_count(usage, "output_tokens"),
    )


def _inside(total: int, cached: int, written: int, out: int) -> Tokens:
    if cached + written > total:
        raise BadInput(f"{cached} cached and {written} written tokens are more than {total} input")
    return Tokens(uncached=total - cached, cached=cached, cache_write=written, out=out)


def _count(usage: Mapping[str, Any], *names: str) -> int:
    """The first of the names that is there; what is absent or null is 0."""
    value = next((usage[name] for name in names if usage.get(name) is not None), 0)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadInput(f"{names[0]} is {value!r}: a whole number of at least 0 is allowed")
    return value
