"""What a request to an OpenAI-compatible server asks for, and the same with less."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tokenweir.errors import BadInput
from tokenweir.gateway.ladder import Plan

Kind = Literal["chat", "completions", "responses", "embeddings"]
Count = Callable[[str], int]

# What a path ends with; the first that fits counts.
PATHS: tuple[tuple[str, Kind], ...] = (
    ("/chat/completions", "chat"),
    ("/completions", "completions"),
    ("/responses", "responses"),
    ("/embeddings", "embeddings"),
)
# As OpenTelemetry's gen_ai.operation.name has them.
OPERATIONS: Mapping[Kind, str] = {
    "chat": "chat",
    "completions": "text_completion",
    "responses": "chat",
    "embeddings": "embeddings",
}
# The longest answer, by what it is called in each; the first that is there counts.
_CEILINGS: Mapping[Kind, tuple[str, ...]] = {
    "chat": ("max_completion_tokens", "max_tokens"),
    "completions": ("max_tokens",),
    "responses": ("max_output_tokens",),
    "embeddings": (),
}
_PROMPTS = (
    "messages",
    "prompt",
    "input",
    "instructions",
    "system",
    "tools",
    "functions",
    "suffix",
)
MOST_CHOICES = 128
MOST_TOKENS = 1 << 40


@dataclass(frozen=True, slots=True)
class Ask:
    """One request. `max_tokens` is of one choice; None: not said. `input_tokens` is an estimate.

    `includes_usage`: a stream that the client wants to end with its usage.
    """

    kind: Kind
    model: str
    input_tokens: int
    max_tokens: int | None
    choices: int
    stream: bool
    includes_usage: bool
    service_tier: str
    body: Mapping[str, Any] = field(repr=False)

    @property
    def longest_out(self) -> int | None:
        """The most output tokens of all choices together."""
        return None if self.max_tokens is None else self.max_tokens * self.choices


def kind_of(method: str, path: str) -> Kind | None:
    """What a request is for; None: nothing that uses tokens."""
    if method != "POST":
        return None
    return next((kind for end, kind in PATHS if path.rstrip("/").endswith(end)), None)


def read_ask(kind: Kind, body: bytes, count: Count) -> Ask:
    """What a body asks for; raises `BadInput` that names the field for one that cannot be."""
    try:
        found = json.loads(body)
    except ValueError as error:
        raise BadInput(f"the body is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise BadInput("the body is not a JSON object")
    return ask_of(kind, found, count)


def ask_of(kind: Kind, found: Mapping[str, Any], count: Count) -> Ask:
    """The same from a body that is read already."""
    ceilings = (_whole(found, name, 0, MOST_TOKENS) for name in _CEILINGS[kind])
    options = found.get("stream_options")
    return Ask(
        kind=kind,
        model=_text(found, "model"),
        input_tokens=sum(_tokens(found.get(name), count) for name in _PROMPTS),
        max_tokens=0
        if kind == "embeddings"
        else next((c for c in ceilings if c is not None), None),
        choices=_whole(found, "n", 1, MOST_CHOICES) or 1,
        stream=_truth(found, "stream") and kind != "embeddings",
        includes_usage=isinstance(options, dict) and options.get("include_usage") is True,
        service_tier=_text(found, "service_tier"),
        body=found,
    )


def rewritten(ask: Ask, plan: Plan) -> bytes | None:
    """The body that goes on: as planned, and a stream with its usage; None: as it came."""
    changes: dict[str, Any] = {}
    if plan.model != ask.model:
        changes["model"] = plan.model
    if plan.max_tokens != ask.max_tokens:
        changes[ceiling_name(ask)] = plan.max_tokens
    if plan.service_tier and plan.service_tier != ask.service_tier:
        changes["service_tier"] = plan.service_tier
    if adds_usage(ask):
        changes["stream_options"] = {
            **(ask.body.get("stream_options") or {}),
            "include_usage": True,
        }
    if not changes:
        return None
    return json.dumps({**ask.body, **changes}, ensure_ascii=False).encode("utf-8", "replace")


def adds_usage(ask: Ask) -> bool:
    """Whether we ask for a stream's usage, and so must take it out again."""
    return ask.stream and not ask.includes_usage and ask.kind in ("chat", "completions")


def bytes_by_four(text: str) -> int:
    """About the tokens of a text: a token for each 4 bytes of UTF-8, rounded up."""
    return -(-len(text.encode("utf-8", "replace")) // 4)


def ceiling_name(ask: Ask) -> str:
    """What a request's longest answer is called in its body."""
    names = _CEILINGS[ask.kind]
    # Servers that know only the older name exist, and none that knows only the newer one.
    return next((name for name in names if ask.body.get(name) is not None), names[-1])


def _tokens(value: object, count: Count) -> int:
    return sum(one if isinstance(one, int) else count(one) for one in _pieces(value))


def _pieces(value: object) -> Iterator[str | int]:
    """The texts in a prompt; a token that is given as its number is 1. No images, no sound."""
    if isinstance(value, str):
        if not value.startswith("data:"):
            yield value
    elif isinstance(value, int) and not isinstance(value, bool):
        yield 1
    elif isinstance(value, dict):
        for name, part in value.items():
            if name not in ("type", "role", "data", "b64_json"):
                yield from _pieces(part)
    elif isinstance(value, list):
        for part in value:
            yield from _pieces(part)


def _text(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name)
    if value is None or (isinstance(value, str) and len(value) <= 200):
        return value or ""
    raise BadInput(f"{name} is {value!r:.60}; allowed is a string of at most 200 characters")


def _truth(found: Mapping[str, Any], name: str) -> bool:
    value = found.get(name)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise BadInput(f"{name} is {value!r:.60}; allowed are true and false")


def _whole(found: Mapping[str, Any], name: str, least: int, most: int) -> int | None:
    value = found.get(name)
    if value is None or (type(value) is int and least <= value <= most):
        return value
    raise BadInput(f"{name} is {value!r:.60}; allowed is a whole number from {least} to {most}")
