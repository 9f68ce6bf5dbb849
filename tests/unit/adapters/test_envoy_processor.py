"""Envoy's external processor, spoken to over gRPC: every end of an exchange settles its call."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.unit.adapters.envoy_client import USAGE, Client, connected, descriptor
from tests.unit.adapters.served import Pool
from tokenweir.adapters.envoy import Degrade
from tokenweir.adapters.envoy.wire_pb2 import RateLimitResponse
from tokenweir.errors import BadInput
from tokenweir.gateway.ladder_file import read_ladder

EVENTS = "text/event-stream; charset=utf-8"


@pytest.fixture
def pool() -> Pool:
    made = Pool()
    made.lease(("ela", 1000, 1000, 0))
    return made


@pytest.fixture
async def client(pool: Pool) -> AsyncIterator[Client]:
    async with connected(pool) as client:
        yield client


def event(value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


SAID = event({"choices": [{"delta": {"content": "hi"}}]})
USED = event({"choices": [], "usage": USAGE})
DONE = b"data: [DONE]\n\n"


def ended(pool: Pool) -> tuple[str, int, int, int, bool, bool, str]:
    (row,) = pool.rows()
    return (
        row["status"],
        row["uncached"],
        row["cached"],
        row["out"],
        row["estimated"],
        row["error"],
        row["reason"],
    )


async def test_the_answers_usage_replaces_the_estimate(pool: Pool, client: Client) -> None:
    exchange = client.exchange()
    response = await exchange.ask()
    assert response.overall_code == RateLimitResponse.OK
    assert pool.gate().subjects["ela"].spent == 50 + 100
    body = json.dumps({"choices": [], "usage": USAGE}).encode()
    assert await exchange.answer(body[:20], body[20:]) == body
    assert ended(pool) == ("done", 42, 8, 7, False, False, "")
    assert pool.gate().subjects["ela"].spent == 57
    assert pool.rows()[0]["id"] == exchange.headers["x-tokenweir-call"]
    assert pool.rows()[0]["id"].startswith("req-1/")
    await exchange.close()


async def test_a_stream_is_asked_for_its_usage_and_the_client_sees_what_it_asked_for(
    pool: Pool, client: Client
) -> None:
    exchange = client.exchange()
    body = await exchange.request(json.dumps({"model": "m", "stream": True}).encode())
    assert json.loads(body)["stream_options"] == {"include_usage": True}
    assert exchange.headers["content-length"] == str(len(body))
    await exchange.limit()
    assert await exchange.answer(SAID, USED, DONE, kind=EVENTS) == SAID + DONE
    assert ended(pool) == ("done", 42, 8, 7, False, False, "")


async def test_a_client_that_asked_for_the_usage_gets_it(pool: Pool, client: Client) -> None:
    exchange = client.exchange()
    await exchange.ask(stream=True, stream_options={"include_usage": True})
    assert (
        await exchange.answer(SAID + USED[:9], USED[9:] + DONE, kind=EVENTS) == SAID + USED + DONE
    )
    assert ended(pool) == ("done", 42, 8, 7, False, False, "")


async def test_a_stream_that_breaks_off_is_charged_what_it_produced(
    pool: Pool, client: Client
) -> None:
    exchange = client.exchange()
    await exchange.ask(stream=True)
    await exchange.answer(SAID, SAID, SAID, kind=EVENTS, end=False)
    exchange.stream.cancel()
    async with asyncio.timeout(60):
        while pool.gate().holds:  # noqa: ASYNC110  # the core tells nobody
            await asyncio.sleep(0.01)
    assert ended(pool) == ("cancelled", 50, 0, 3, True, False, "disconnected")


async def test_a_stream_that_breaks_off_after_its_usage_is_charged_that(
    pool: Pool, client: Client
) -> None:
    exchange = client.exchange()
    await exchange.ask(stream=True)
    await exchange.answer(SAID, USED, kind=EVENTS, end=False)
    await exchange.close()
    assert ended(pool) == ("done", 42, 8, 7, False, False, "")


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (200, {"choices": []}, ("done", 50, 0, 0, True, False, "no_usage")),
        (
            200,
            {"choices": [{"message": {"content": "four" * 6}}]},
            ("done", 50, 0, 6, True, False, "no_usage"),
        ),
        (200, {"usage": {"prompt_tokens": -1}}, ("done", 50, 0, 0, True, False, "bad_usage")),
        (
            200,
            {"usage": {"prompt_tokens": 0, "completion_tokens": 0}},
            ("done", 0, 0, 0, False, False, ""),
        ),
        (404, {"error": {}}, ("done", 0, 0, 0, False, True, "http_404")),
        (502, {"error": {}}, ("done", 50, 0, 0, True, True, "http_502")),
    ],
)
async def test_what_is_charged_when_the_usage_is_missing_nothing_or_an_error(
    pool: Pool, client: Client, status: int, body: Any, expected: tuple[Any, ...]
) -> None:
    exchange = client.exchange()
    await exchange.ask()
    await exchange.answer(json.dumps(body).encode(), status=status)
    assert ended(pool) == expected


async def test_a_request_that_never_got_an_answer_is_a_marked_estimate(
    pool: Pool, client: Client
) -> None:
    exchange = client.exchange()
    await exchange.ask()
    await exchange.close()
    assert ended(pool) == ("cancelled", 50, 0, 0, True, False, "disconnected")


async def test_a_refused_request_leaves_nothing_to_settle(pool: Pool, client: Client) -> None:
    exchange = client.exchange()
    response = await exchange.ask(tenant="nobody")
    assert response.overall_code == RateLimitResponse.OVER_LIMIT
    await exchange.answer(response.raw_body, status=429)
    await exchange.close()
    assert [row["status"] for row in pool.rows()] == ["refused"]
    assert not pool.gate().holds


async def test_a_request_that_ran_too_long_has_ended_already(pool: Pool, client: Client) -> None:
    exchange = client.exchange()
    await exchange.ask()
    pool.clock.now_ms += 600_001
    pool.gateway._lanes["chat"].expire()
    await exchange.answer(json.dumps({"usage": USAGE}).encode())
    assert [row["status"] for row in pool.rows()] == ["expired"]


async def test_a_body_that_is_not_understood_goes_on_and_is_charged_what_it_used(
    pool: Pool, client: Client
) -> None:
    exchange = client.exchange()
    assert await exchange.request(b"[1]") == b"[1]"
    await exchange.limit()
    assert pool.gate().subjects["ela"].spent == 1000  # the default estimate
    await exchange.answer(json.dumps({"usage": USAGE}).encode())
    assert ended(pool)[:4] == ("done", 42, 8, 7)


async def test_a_client_can_forge_none_of_our_fields(client: Client) -> None:
    exchange = client.exchange()
    forged = {"x-tokenweir-call": "guess", "x-tokenweir-estimate": "0", "accept-encoding": "gzip"}
    await exchange.request(b"{}", **forged)
    assert exchange.headers["x-tokenweir-call"].startswith("req-1/")
    assert "x-tokenweir-estimate" not in exchange.headers
    assert "accept-encoding" not in exchange.headers


async def test_what_uses_no_tokens_passes_as_it_is(client: Client) -> None:
    exchange = client.exchange()
    path = "/v1/files"
    assert await exchange.request(b'{"stream": true}', path, **{"accept-encoding": "gzip"})
    assert exchange.headers["accept-encoding"] == "gzip"


async def test_the_body_says_what_is_asked_for_and_entries_say_it_better(
    pool: Pool, client: Client
) -> None:
    exchange = client.exchange()
    await exchange.ask(model="big", n=2, service_tier="flex")
    (call,) = pool.gate().holds
    assert (call.model, call.operation, call.provider_tier) == ("big", "chat", "flex")
    assert (call.input_tokens, call.max_tokens, call.sequences) == (50, 200, 2)
    entries = {"call": exchange.headers["x-tokenweir-call"], "model": "alias"}
    await client.limit(descriptor(70, tenant="ela", **entries))
    call = list(pool.gate().holds)[-1]
    assert (call.model, call.cost // 1000) == ("alias", 70)


async def test_the_ladder_is_applied_before_a_request_is_asked_for(pool: Pool) -> None:
    steps = [{"model": {"big": "small"}}, {"max_tokens": 20}, {"batch": "flex"}]
    ladder = read_ladder([{"do": steps}])
    async with connected(pool, Degrade(pool.gateway, "chat", ladder)) as client:
        exchange = client.exchange()
        body = json.loads(await exchange.request(b'{"model": "big", "prompt": "x"}'))
        assert (body["model"], body["max_tokens"], body["service_tier"]) == ("small", 20, "flex")
        await exchange.limit()
        (call,) = pool.gate().holds
        assert (call.model, call.max_tokens, call.flow) == ("small", 20, "batch")


@pytest.mark.parametrize("when", ["asked", "refused"])
def test_a_ladder_with_answers_is_not_for_an_envoy(pool: Pool, when: str) -> None:
    ladder = read_ladder([{"when": when, "do": [{"canned": "Sorry"}]}])
    with pytest.raises(BadInput, match="allowed are model, max_tokens and batch"):
        Degrade(pool.gateway, "chat", ladder)
