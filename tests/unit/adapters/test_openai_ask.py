import json
from typing import Any

import pytest

from tokenweir.adapters.openai.ask import Ask, bytes_by_four, kind_of, read_ask, rewritten
from tokenweir.errors import BadInput
from tokenweir.gateway.ladder import Plan

HELLO = [{"role": "user", "content": "Hello, you!!"}]  # 12 bytes: 3 tokens


def ask(kind: Any = "chat", **body: Any) -> Ask:
    return read_ask(kind, json.dumps(body).encode(), bytes_by_four)


def kept(found: Ask, **changes: Any) -> bytes | None:
    planned = Plan(**{"model": found.model, "max_tokens": found.max_tokens, **changes})
    return rewritten(found, planned)


@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("POST", "/v1/chat/completions", "chat"),
        ("POST", "/v1/completions", "completions"),
        ("POST", "/v1/responses", "responses"),
        ("POST", "/v1/embeddings/", "embeddings"),
        ("POST", "/openai/deployments/m/chat/completions", "chat"),
        ("GET", "/v1/chat/completions", None),
        ("POST", "/v1/models", None),
        ("POST", "/v1/responses/resp_1/cancel", None),
    ],
)
def test_paths_that_use_tokens_are_told_by_their_ends(
    method: str, path: str, kind: str | None
) -> None:
    assert kind_of(method, path) == kind


def test_what_is_asked_for_is_read() -> None:
    found = ask(model="m", messages=HELLO, max_tokens=50, n=3, stream=True)
    assert (found.model, found.input_tokens, found.max_tokens) == ("m", 3, 50)
    assert (found.choices, found.stream, found.includes_usage) == (3, True, False)


def test_the_newer_name_of_the_ceiling_goes_first() -> None:
    assert ask(max_tokens=50, max_completion_tokens=20).max_tokens == 20
    assert ask("responses", max_output_tokens=7, max_tokens=50).max_tokens == 7
    assert ask(max_tokens=None).max_tokens is None
    assert ask("embeddings", input="abc").max_tokens == 0


def test_images_and_sound_are_no_text_and_tokens_by_number_are_one_each() -> None:
    parts = [
        {"type": "text", "text": "abcd"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 4000}},
        {"type": "input_audio", "input_audio": {"data": "A" * 4000, "format": "wav!"}},
    ]
    assert ask(messages=[{"role": "user", "content": parts}]).input_tokens == 2
    assert ask("completions", prompt=[5, 6, 7]).input_tokens == 3
    assert ask("embeddings", input=["abcd", "efgh"]).input_tokens == 2
    assert ask("responses", instructions="abcd", input="abcdefgh").input_tokens == 3


@pytest.mark.parametrize("value", ["10", -5, 1.5e308, True, 1.0, 1 << 60, [1]])
@pytest.mark.parametrize("name", ["max_tokens", "n"])
def test_a_malformed_number_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(BadInput, match=f"^{name} is "):
        ask(**{name: value})


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"{", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b'{"model": 5}', "model is 5"),
        (b'{"stream": "yes"}', "stream is 'yes'"),
        (b'{"max_tokens": NaN}', "max_tokens is nan"),
        (b"\xff\xfe", "not JSON"),
    ],
)
def test_a_body_that_cannot_be_is_refused(body: bytes, what: str) -> None:
    with pytest.raises(BadInput, match=what):
        read_ask("chat", body, bytes_by_four)


def test_a_body_that_is_not_changed_goes_on_as_it_came() -> None:
    assert kept(ask(model="m", messages=HELLO, max_tokens=5)) is None
    assert kept(ask("responses", model="m", input="x", stream=True)) is None


def test_a_plan_changes_the_model_the_ceiling_and_the_tier_and_nothing_else() -> None:
    found = ask(model="m", messages=HELLO, max_tokens=500, temperature=0.5)
    body = kept(found, model="s", max_tokens=64, service_tier="flex")
    assert json.loads(body or b"") == {
        "model": "s",
        "messages": HELLO,
        "max_tokens": 64,
        "temperature": 0.5,
        "service_tier": "flex",
    }


def test_the_ceiling_is_set_under_the_name_that_the_client_used() -> None:
    assert b'"max_completion_tokens": 9' in (
        kept(ask(max_completion_tokens=50), max_tokens=9) or b""
    )
    assert b'"max_tokens": 9' in (kept(ask(), max_tokens=9) or b"")
    assert b'"max_output_tokens": 9' in (kept(ask("responses"), max_tokens=9) or b"")


def test_a_stream_is_asked_for_its_usage() -> None:
    found = ask(model="m", stream=True, stream_options={"include_obfuscation": False})
    options = json.loads(kept(found) or b"")["stream_options"]
    assert options == {"include_obfuscation": False, "include_usage": True}
    assert kept(ask(stream=True, stream_options={"include_usage": True})) is None
