"""The value of a record in the events topic: an event in JSON or Avro, or a tick."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from tokenweir.errors import BadRecord
from tokenweir.events.check import checked
from tokenweir.events.usage import NAMES, Figures, figures
from tokenweir.events.values import flag, moment, part, text, whole
from tokenweir.records.event import Event
from tokenweir.records.usage import Flow, Status
from tokenweir.wire import MARKER, decode_as

TICK = b'{"tick":true}'


@dataclass(frozen=True, slots=True)
class Heard:
    """An event, and what was noticed when it was read."""

    event: Event
    total_differs: bool = False


def read(value: bytes | None) -> Heard | None:
    """The event in a record's value, or None for a tick.

    Avro where the bytes begin with the single-object marker, else JSON. Raises `BadRecord`.
    """
    if value is None:
        raise BadRecord("the value is null")
    if value[:2] == MARKER:
        return Heard(checked(decode_as(Event, value)))
    content = _json(value)
    return None if content.get("tick") is True else from_json(content)


def from_json(content: Mapping[str, Any]) -> Heard:
    """The event that a JSON object describes; names that are not ours are passed over."""
    operation = text("operation", content.get("operation")) or ""
    usage = part("usage", content.get("usage", content if _is_flat(content) else None))
    found = figures(usage, operation)
    return Heard(checked(_event(content, operation, found)), found.total_differs)


def _json(value: bytes) -> dict[str, Any]:
    try:
        content = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise BadRecord(f"neither JSON nor an Avro Event: {error}") from error
    if not isinstance(content, dict):
        raise BadRecord(f"a JSON {type(content).__name__}: one object an event is allowed")
    return content


def _is_flat(content: Mapping[str, Any]) -> bool:
    """Whether the usage stands in the event itself, as in the logs of some gateways."""
    return any(name in content for name in NAMES)


def _event(content: Mapping[str, Any], operation: str, found: Figures) -> Event:
    get = content.get
    id = text("id", get("id")) or ""
    return Event(
        pool=text("pool", get("pool")) or "",
        tenant=text("tenant", get("tenant")) or "",
        user=text("user", get("user")) or "",
        request_id=text("request_id", get("request_id")) or id,
        attempt=_number(content, "attempt", 1),
        status=_choice("status", get("status"), get_args(Status), "done"),
        provisional=flag("provisional", get("provisional")) or False,
        id=id,
        age_ms=whole("age_ms", get("age_ms")),
        time_ms=moment("time", get("time")),
        model=text("model", get("model")) or "",
        operation=operation,
        provider_tier=text("provider_tier", get("provider_tier")) or "",
        reason=text("reason", get("reason")) or "",
        flow=_choice("flow", get("flow"), get_args(Flow), "online"),
        priority=_number(content, "priority", 2),
        tokens_uncached=found.uncached,
        tokens_cache_write=found.cache_write,
        tokens_cached=found.cached,
        tokens_out=found.out,
        chars_prompt=whole("chars_prompt", get("chars_prompt")),
        chars_streamed=whole("chars_streamed", get("chars_streamed")),
        max_tokens=whole("max_tokens", get("max_tokens")),
        refused_tokens=_number(content, "refused_tokens", 0),
        error=flag("error", get("error")) or False,
        kv_bytes=_number(content, "kv_bytes", 0),
        wait_ms=_number(content, "wait_ms", 0),
        duration_ms=_number(content, "duration_ms", 0),
        decision=_number(content, "decision", 0),
    )


def _number(content: Mapping[str, Any], name: str, otherwise: int) -> int:
    value = whole(name, content.get(name))
    return otherwise if value is None else value


def _choice(name: str, value: Any, allowed: tuple[str, ...], otherwise: str) -> Any:
    if value is None:
        return otherwise
    if value not in allowed:
        raise BadRecord(f"{name} is {value!r}: {', '.join(allowed)} are allowed")
    return value
