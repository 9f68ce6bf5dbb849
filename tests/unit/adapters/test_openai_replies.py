"""Answers that no model gave, as the real client's own types read them."""

import json
from typing import Any

import pytest
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from tokenweir.adapters.openai.ask import bytes_by_four, read_ask
from tokenweir.adapters.openai.replies import EVENTS, JSON, reply

TEXT = "Busy — try again."


def answered(kind: Any, **body: Any) -> tuple[str, bytes]:
    ask = read_ask(kind, json.dumps({"model": "m", **body}).encode(), bytes_by_four)
    found = reply(ask, TEXT, "x1", 1_780_000_000)
    assert found is not None
    return found


def events(body: bytes) -> list[Any]:
    lines = [line[6:] for line in body.decode().splitlines() if line.startswith("data: {")]
    return [json.loads(line) for line in lines]


def test_a_chat_completion_is_one() -> None:
    content_type, body = answered("chat")
    found = ChatCompletion.model_validate_json(body)
    assert (content_type, found.choices[0].message.content) == (JSON, TEXT)
    assert found.usage is not None
    assert (found.usage.total_tokens, found.model) == (0, "m")


@pytest.mark.parametrize("include_usage", [True, False])
def test_a_chat_stream_has_its_chunks(include_usage: bool) -> None:
    options = {"include_usage": include_usage}
    content_type, body = answered("chat", stream=True, stream_options=options)
    chunks = [ChatCompletionChunk.model_validate(event) for event in events(body)]
    assert content_type == EVENTS
    assert chunks[0].choices[0].delta.content == TEXT
    assert (chunks[-1].usage is not None) is include_usage
    assert body.endswith(b"data: [DONE]\n\n")


def test_a_completion_is_one() -> None:
    assert Completion.model_validate_json(answered("completions")[1]).choices[0].text == TEXT


def test_a_response_is_one() -> None:
    assert Response.model_validate_json(answered("responses")[1]).output_text == TEXT


def test_a_response_may_be_a_stream() -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    found = [
        adapter.validate_python(event) for event in events(answered("responses", stream=True)[1])
    ]
    assert [event.sequence_number for event in found] == list(range(len(found)))
    assert "".join(e.delta for e in found if e.type == "response.output_text.delta") == TEXT
    assert found[-1].response.output_text == TEXT


def test_no_text_answers_for_an_embedding() -> None:
    ask = read_ask("embeddings", b'{"model": "e", "input": "x"}', bytes_by_four)
    assert reply(ask, TEXT, "x1", 0) is None
