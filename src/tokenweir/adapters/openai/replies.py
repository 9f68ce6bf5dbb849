"""Answers that no model gave, in OpenAI's forms; they used nothing."""

import json
from collections.abc import Iterator
from typing import Any

from tokenweir.adapters.openai.ask import Ask

JSON = "application/json"
EVENTS = "text/event-stream"


def reply(ask: Ask, text: str, id: str, created_s: int) -> tuple[str, bytes] | None:
    """The content type and the body of an answer that says `text`; None: no text can answer.

    `id` is unique, `created_s` Unix time.
    """
    match ask.kind:
        case "chat":
            return _form(ask, _chat(ask, text), f"chatcmpl-{id}", created_s)
        case "completions":
            return _form(ask, _completion(ask, text), f"cmpl-{id}", created_s)
        case "responses":
            return _response(ask, text, f"resp_{id}", created_s)
        case _:
            return None


def problem(message: str, kind: str = "invalid_request_error", code: str | None = None) -> bytes:
    """An error in OpenAI's form."""
    error = {"message": message, "type": kind, "param": None, "code": code}
    return json.dumps({"error": error}, ensure_ascii=False).encode("utf-8", "replace")


def _chat(ask: Ask, text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    name = "delta" if ask.stream else "message"
    object_ = "chat.completion.chunk" if ask.stream else "chat.completion"
    return {"object": object_, "choices": [_choice({name: message})]}


def _completion(ask: Ask, text: str) -> dict[str, Any]:
    return {"object": "text_completion", "choices": [_choice({"text": text, "logprobs": None})]}


def _choice(said: dict[str, Any]) -> dict[str, Any]:
    return {"index": 0, **said, "finish_reason": "stop"}


def _form(ask: Ask, answer: dict[str, Any], id: str, created_s: int) -> tuple[str, bytes]:
    answer = {"id": id, "created": created_s, "model": ask.model, **answer}
    usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    if not ask.stream:
        return JSON, _dumped({**answer, "usage": usage})
    chunks = [answer]
    if ask.includes_usage:
        chunks.append({**answer, "choices": [], "usage": usage})
    return EVENTS, b"".join((*(_event(chunk) for chunk in chunks), b"data: [DONE]\n\n"))


def _response(ask: Ask, text: str, id: str, created_s: int) -> tuple[str, bytes]:
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {
        "type": "message",
        "id": f"msg_{id}",
        "status": "completed",
        "role": "assistant",
        "content": [part],
    }
    response = {
        "id": id,
        "object": "response",
        "created_at": created_s,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": ask.model,
        "output": [item],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 0,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 0,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 0,
        },
    }
    if not ask.stream:
        return JSON, _dumped(response)
    events = enumerate(_events(response, item, part, text))
    return EVENTS, b"".join(_event({**event, "sequence_number": n}) for n, event in events)


def _events(
    response: dict[str, Any], item: dict[str, Any], part: dict[str, Any], text: str
) -> Iterator[dict[str, Any]]:
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    yield {"type": "response.created", "response": begun}
    opened = {**item, "status": "in_progress", "content": []}
    yield {"type": "response.output_item.added", "output_index": 0, "item": opened}
    yield {"type": "response.content_part.added", **place, "part": {**part, "text": ""}}
    yield {"type": "response.output_text.delta", **place, "delta": text, "logprobs": []}
    yield {"type": "response.output_text.done", **place, "text": text, "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": part}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    yield {"type": "response.completed", "response": response}


def _event(value: dict[str, Any]) -> bytes:
    name = value.get("type")
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + _dumped(value) + b"\n\n"


def _dumped(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
