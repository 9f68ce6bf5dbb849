"""What a rate limit descriptor asks for: its entries are the arguments of `Gateway.request`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tokenweir.adapters.envoy.wire_pb2 import Descriptor, RateLimitRequest
from tokenweir.errors import BadInput
from tokenweir.gateway.request import MOST

CALL = "call"  # which exchange of the processor the request is
_TEXTS = ("user", "model", "operation", "provider_tier", "flow")
_NUMBERS = ("estimate", "input_tokens", "max_tokens", "priority", "sequences", "kv_bytes")


@dataclass(frozen=True, slots=True)
class Defaults:
    """For requests that do not say: `estimate` in charged tokens, and whose they are."""

    estimate: int = 1_000
    tenant: str = "anonymous"


@dataclass(frozen=True, slots=True)
class Wanted:
    """One descriptor: `arguments` are those of `Gateway.request`. `call` empty: not processed."""

    call: str
    arguments: Mapping[str, Any]


def wanted(request: RateLimitRequest, descriptor: Descriptor, defaults: Defaults) -> Wanted:
    """What one descriptor of a request asks for; raises `BadInput` for a number that is none.

    The pool is the entry `pool`, else the domain. The estimate is the entry `estimate`, else that
    of `input_tokens` and `max_tokens`, else the descriptor's `hits_addend`, else the request's.
    """
    entries = {entry.key: entry.value for entry in descriptor.entries}
    numbers = {name: _number(name, entries[name]) for name in _NUMBERS if name in entries}
    if "estimate" not in numbers and "input_tokens" not in numbers:
        hits = _hits(request, descriptor)
        numbers["estimate"] = defaults.estimate if hits is None else hits
    texts = {name: entries[name] for name in _TEXTS if name in entries}
    return Wanted(
        entries.get(CALL, ""),
        {
            "pool": entries.get("pool") or request.domain,
            "tenant": entries.get("tenant") or defaults.tenant,
            **texts,
            **numbers,
        },
    )


def _hits(request: RateLimitRequest, descriptor: Descriptor) -> int | None:
    if descriptor.HasField("hits_addend"):
        hits: int = descriptor.hits_addend.value
        return min(hits, MOST)
    return request.hits_addend or None


def _number(name: str, value: str) -> int:
    if value.isascii() and value.isdigit() and len(value) <= 16 and int(value) <= MOST:
        return int(value)
    raise BadInput(f"{name} is {value!r:.60}; allowed is a whole number from 0 to {MOST}")
