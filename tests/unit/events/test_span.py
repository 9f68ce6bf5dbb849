"""Spans of the GenAI conventions as events; the first has the form of published recordings."""

from typing import Any

import pytest

from tokenweir.errors import BadRecord
from tokenweir.events.read import read
from tokenweir.events.span import span_event
from tokenweir.records.event import Event
from tokenweir.wire import encode

RECORDED: dict[str, Any] = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "gpt-4",
    "gen_ai.request.max_tokens": 500,
    "gen_ai.request.temperature": 0.7,
    "gen_ai.input.messages": '[{"role": "user", "content": "What is the capital of France?"}]',
    "gen_ai.output.text": "The capital of France is Paris.",
}
USAGE = {
    "gen_ai.usage.input_tokens": 130_213,
    "gen_ai.usage.cache_read.input_tokens": 128_955,
    "gen_ai.usage.cache_creation.input_tokens": 1_253,
    "gen_ai.usage.output_tokens": 900,
    "gen_ai.usage.reasoning.output_tokens": 640,
}


def spanned(attributes: dict[str, Any], **known: Any) -> Event:
    event = span_event(attributes, pool="chat", tenant="acme", request_id="span-1", **known)
    assert event is not None
    return event


def test_input_includes_caches_and_output_reasoning() -> None:
    event = spanned({**RECORDED, **USAGE, "gen_ai.response.model": "gpt-4-0613"}, age_ms=40)
    assert (event.tokens_uncached, event.tokens_cache_write) == (1_258, 1_253)
    assert (event.tokens_cached, event.tokens_out) == (128_955, 900)
    assert (event.model, event.operation, event.age_ms) == ("gpt-4-0613", "chat", 40)


def test_a_recorded_span_without_usage_is_an_event_to_estimate() -> None:
    event = spanned(RECORDED)
    assert (event.tokens_uncached, event.tokens_out, event.max_tokens) == (None, None, 500)
    assert (event.chars_prompt, event.chars_streamed) == (63, 31)


def test_former_names_still_tell() -> None:
    event = spanned({"gen_ai.usage.prompt_tokens": 7, "gen_ai.usage.completion_tokens": 3})
    assert (event.tokens_uncached, event.tokens_out) == (7, 3)


@pytest.mark.parametrize("operation", ["invoke_agent", "create_agent", "execute_tool"])
def test_a_span_that_calls_no_model_itself_is_no_event(operation: str) -> None:
    attributes = {**USAGE, "gen_ai.operation.name": operation}
    assert span_event(attributes, pool="chat", tenant="acme", request_id="s") is None


def test_an_error_is_one_and_says_why() -> None:
    event = spanned({**RECORDED, "error.type": "timeout"})
    assert (event.error, event.reason) == (True, "timeout")


def test_it_survives_the_wire() -> None:
    heard = read(encode(spanned({**RECORDED, **USAGE})))
    assert heard is not None
    assert heard.event == spanned({**RECORDED, **USAGE})


def test_numbers_that_are_none_are_refused() -> None:
    with pytest.raises(BadRecord, match=r"gen_ai\.usage\.output_tokens is -1"):
        spanned({**USAGE, "gen_ai.usage.output_tokens": -1})
