"""Envoy's rate limit service, asked over gRPC."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from tests.unit.adapters.envoy_client import Client, connected, descriptor
from tests.unit.adapters.served import Pool
from tests.unit.gateway.made import POOL, class_states
from tokenweir.adapters.envoy.wire_pb2 import RateLimitResponse
from tokenweir.records.spec import TokenWeights

OK, OVER_LIMIT = RateLimitResponse.OK, RateLimitResponse.OVER_LIMIT


@pytest.fixture
def pool() -> Pool:
    return Pool()


@pytest.fixture
async def client(pool: Pool) -> AsyncIterator[Client]:
    async with connected(pool) as client:
        yield client


def headers(response: RateLimitResponse) -> dict[str, str]:
    return {header.key: header.value for header in response.response_headers_to_add}


def charged(pool: Pool) -> int:
    row = pool.rows()[-1]
    return int(row["uncached"] + row["cached"] + row["out"])


@pytest.mark.parametrize(
    ("of_descriptor", "of_request", "entries", "tokens"),
    [
        (None, 0, {}, 1000),  # nothing is said: the default
        (None, 70, {}, 70),
        (60, 70, {}, 60),
        (0, 70, {}, 0),  # 0 is 0
        (60, 70, {"estimate": "50"}, 50),
        (60, 70, {"input_tokens": "40", "max_tokens": "0"}, 40),
        (60, 70, {"input_tokens": "40", "max_tokens": "5"}, 45),
    ],
)
async def test_the_estimate_is_the_most_exact_one_that_is_given(
    pool: Pool,
    client: Client,
    of_descriptor: int | None,
    of_request: int,
    entries: dict[str, str],
    tokens: int,
) -> None:
    pool.lease(("ela", 5000, 5000, 0))
    asked = descriptor(of_descriptor, tenant="ela", **entries)
    response = await client.limit(asked, hits=of_request)
    assert response.overall_code == OK
    assert charged(pool) == tokens


async def test_what_no_processor_follows_is_a_marked_estimate(pool: Pool, client: Client) -> None:
    pool.lease(("ela", 5000, 5000, 0))
    await client.limit(descriptor(tenant="ela", user="bo", model="m", flow="batch", priority="3"))
    row = pool.rows()[-1]
    assert (row["tenant"], row["user"], row["model"]) == ("ela", "bo", "m")
    assert (row["flow"], row["priority"], row["estimated"]) == ("batch", 3, True)


async def test_input_and_longest_answer_are_weighed(pool: Pool, client: Client) -> None:
    weights = TokenWeights(1_000_000, 100_000, 3_000_000)
    pool.lease(("ela", 5000, 5000, 0), changes={"token_weights": weights})
    await client.limit(descriptor(tenant="ela", input_tokens="40", max_tokens="5"))
    assert pool.gate().subjects["ela"].spent == 40 + 3 * 5


async def test_over_the_limit_envoy_is_told_header_fields_body_and_status(
    pool: Pool, client: Client
) -> None:
    pool.lease(("ela", 100, 100, 0))
    assert (await client.limit(descriptor(300, tenant="ela"))).overall_code == OK
    response = await client.limit(descriptor(50, tenant="ela"))
    assert response.overall_code == OVER_LIMIT
    found = headers(response)
    assert found["retry-after"] == "3"  # 200 are owed at 100 a second: a little over 2 s
    assert found["ratelimit"].startswith('"lease";r=0')
    assert found["content-type"] == "application/json"
    error = json.loads(response.raw_body)["error"]
    assert (error["reason"], error["owed"]) == ("tokens", 200)
    assert response.dynamic_metadata["status"] == 429
    assert response.dynamic_metadata["decision_id"] == error["decision_id"]
    assert found["tokenweir-decision"] == error["decision_id"]


async def test_an_admitted_request_carries_what_is_left(pool: Pool, client: Client) -> None:
    pool.lease(("ela", 1000, 1000, 0))
    response = await client.limit(descriptor(300, tenant="ela"))
    assert headers(response)["x-ratelimit-remaining-tokens"] == "700"
    assert [status.limit_remaining for status in response.statuses] == [700]


async def test_of_two_limits_none_is_charged_when_one_refuses(pool: Pool, client: Client) -> None:
    pool.lease(("ela", 1000, 1000, 0), ("spo", 100, 100, 0))
    await client.limit(descriptor(300, tenant="spo"))
    response = await client.limit(descriptor(10, tenant="ela"), descriptor(10, tenant="spo"))
    assert response.overall_code == OVER_LIMIT
    assert [status.code for status in response.statuses] == [OK, OVER_LIMIT]
    assert pool.gate().subjects["ela"].spent == 0
    assert [row["reason"] for row in pool.rows()[-2:]] == ["tokens", "another_limit"]


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"estimate": "many"}, "estimate is 'many'; allowed is a whole number"),
        ({"estimate": "-1"}, "estimate is '-1'"),
        ({"priority": "9"}, "priority is 9; allowed are 1, 2 and 3"),
        ({"flow": "slow"}, "flow is 'slow'; allowed are 'online' and 'batch'"),
        ({"pool": "code"}, "pool is 'code'; this gateway serves chat"),
    ],
)
async def test_a_descriptor_that_makes_no_sense_is_refused_and_not_an_error_that_may_pass(
    pool: Pool, client: Client, entries: dict[str, str], said: str
) -> None:
    pool.lease(("ela", 1000, 1000, 0))
    response = await client.limit(
        descriptor(tenant="ela"), descriptor(None, tenant="ela", **entries)
    )
    assert [status.code for status in response.statuses] == [OK, OVER_LIMIT]
    assert response.dynamic_metadata["status"] == 400
    assert said in json.loads(response.raw_body)["error"]["message"]
    assert pool.gate().subjects["ela"].spent == 0


async def test_a_request_without_a_tenant_counts_as_unknown(pool: Pool, client: Client) -> None:
    pool.lease(("ela", 1000, 1000, 0))
    response = await client.limit(descriptor(generic_key="llm"))
    assert response.overall_code == OVER_LIMIT
    assert pool.rows()[-1]["tenant"] == "anonymous"


async def test_a_wait_ends_before_envoy_gives_the_call_up(pool: Pool, client: Client) -> None:
    waits = {"classes": class_states(elastic={"longest_wait_ms": 600_000})}
    pool.lease(("ela", 10, 10, 0), changes=waits)
    await client.limit(descriptor(10**6, tenant="ela"))
    # The class would wait for ten minutes; a tenth less than Envoy's patience is left.
    asked = asyncio.create_task(client.limit(descriptor(10, tenant="ela"), timeout_s=100))
    while not pool.gateway.stats(POOL).waiting:  # noqa: ASYNC110  # the core tells nobody
        await asyncio.sleep(0.001)
    pool.later(10_000)
    assert pool.gateway.stats(POOL).waiting == 1
    pool.later(85_000)
    assert pool.gateway.stats(POOL).waiting == 0
    assert (await asked).overall_code == OVER_LIMIT
    assert pool.gate().subjects["ela"].refused == {"tokens": 1}
