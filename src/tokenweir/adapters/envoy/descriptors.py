"""What a rate limit descriptor asks for: its entries are the arguments of `Gateway.request`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tokenweir.adapters.envoy.wire_pb2 import Descriptor, RateLimitRequest
from tokenweir.errors import BadInput
from tokenweir.gateway.request import MOST

CALL = "call"  # which exchange of the processor the request is
Arguments = Mapping[str, Any]
_TEXTS = ("user", "model", "operation", "provider_tier", "flow")
_NUMBERS = ("estimate", "input_tokens", "max_tokens", "priority", "sequences", "kv_bytes")
_ESTIMATES = ("estimate", "input_tokens", "max_tokens")


@dataclass(frozen=True, slots=True)
class Defaults:
    """For requests that do not say: `estimate` in charged tokens, and whose they are."""

    estimate: int = 1_000
    tenant: str = "anonymous"


@dataclass(frozen=True, slots=True)
class Wanted:
    """One descriptor: `arguments` are those of `Gateway.request`. `call` empty: not processed."""

    call: str
    arguments: Arguments


def wanted(
    request: RateLimitRequest,
    descriptor: Descriptor,
    defaults: Defaults,
    asked: Callable[[str], Arguments],
) -> Wanted:
    """What one descriptor of a request asks for; raises `BadInput` for a number that is none.

    `asked` gives what the processor has read of a call's body. The pool is the entry `pool`, else
    the domain. The estimate is the first that is there: the entries `estimate`, or `input_tokens`
    and `max_tokens`; the `hits_addend` of the descriptor, of the request; the body's; the default.
    """
    entries = {entry.key: entry.value for entry in descriptor.entries}
    call = entries.get(CALL, "")
    numbers = {name: _number(name, entries[name]) for name in _NUMBERS if name in entries}
    arguments = {
        "pool": entries.get("pool") or request.domain,
        "tenant": entries.get("tenant") or defaults.tenant,
        **asked(call),
        **{name: entries[name] for name in _TEXTS if name in entries},
    }
    hits = _hits(request, descriptor)
    if "estimate" in numbers or "input_tokens" in numbers:
        _without_estimate(arguments)
    elif hits is not None:
        _without_estimate(arguments)
        numbers["estimate"] = hits
    elif "input_tokens" not in arguments:
        numbers["estimate"] = defaults.estimate
    return Wanted(call, {**arguments, **numbers})


def _without_estimate(arguments: dict[str, Any]) -> None:
    for name in _ESTIMATES:
        arguments.pop(name, None)


def _hits(request: RateLimitRequest, descriptor: Descriptor) -> int | None:
    if descriptor.HasField("hits_addend"):
        hits: int = descriptor.hits_addend.value
        return min(hits, MOST)
    return request.hits_addend or None


def _number(name: str, value: str) -> int:
    if value.isascii() and value.isdigit() and len(value) <= 16 and int(value) <= MOST:
        return int(value)
    raise BadInput(f"{name} is {value!r:.60}; allowed is a whole number from 0 to {MOST}")
