"""The callback in a real LiteLLM proxy, on real Kafka and ClickHouse: LiteLLM's log is the peer."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import openai
import pytest
import pytest_asyncio
from aiohttp import ClientSession

from streams.config import CHECKOUT, Config
from streams.parts import environment
from streams.supervise import Child
from tests.broker.litellm_parts import Backend, Proxy, installed, served
from tests.broker.test_gateway import DEADLINE_S, PARTITIONS, Control, control_of, until
from tests.unit.gateway.made import EPOCH_MS, POOL, decision, leases, roster
from tokenweir.history.client import connect
from tokenweir.topics import leases_key, pool_key, roster_key
from tokenweir.wire import encode

pytestmark = [
    pytest.mark.broker,
    pytest.mark.clickhouse,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("litellm"),  # one proxy for all: it takes 25 s to come up
]
shared = pytest_asyncio.fixture(scope="module", loop_scope="module")
RICH = ("ela", 1_000_000, 1_000_000, 0)
POOR = ("spo", 20, 40, 0)  # an answer of 107 tokens leaves it owing 67: over 3.3 s
LIFE_MS = 600_000
PROMPT: Any = [{"role": "user", "content": "say hello to me please"}]
GONE = ("cancelled", "hung up")
Rows = dict[str, dict[str, Any]]
# What is marked as an estimate: no provider has said it.
GUESSED = ("mute", "mute streamed", "cancelled", "hung up", "failed", "broken")


class Site:
    """Everything there is, and how it is asked."""

    def __init__(self, proxy: Proxy, backend: Backend, control: Control, history: str) -> None:
        self.proxy, self.backend, self.control, self.history = proxy, backend, control, history
        self.seen: dict[str, str] = {}  # what each call id was
        self.client = openai.AsyncOpenAI(base_url=f"{proxy.url}/v1", api_key="none")

    def of(self, tenant: str) -> openai.AsyncOpenAI:
        """A tenant's client."""
        return self.client.with_options(api_key=f"sk-{tenant}", max_retries=0)

    async def ask(self, what: str, model: str, **fields: Any) -> Any:
        """A chat completion of the rich tenant, not parsed yet, under an id of our own."""
        id = str(uuid4())
        self.seen[id] = what
        chat = self.of("ela").chat.completions.with_raw_response
        named = {"x-litellm-call-id": id}
        return await chat.create(model=model, messages=PROMPT, extra_headers=named, **fields)

    async def post(self, what: str, path: str, **body: Any) -> int:
        """Any other request of the rich tenant, read whole; its status."""
        headers = {"authorization": "Bearer sk-ela"}
        async with (
            ClientSession(headers=headers) as client,
            client.post(f"{self.proxy.url}{path}", json=body) as response,
        ):
            self.seen[response.headers["x-litellm-call-id"]] = what
            await response.read()
            return response.status

    def rows(self) -> Rows:
        """What the history has of each call, its increments added up."""
        client = connect(self.history)
        text = """SELECT logical_request_id AS id, tenant, max(user) AS user, max(model) AS model,
            sum(tokens_uncached) AS uncached, sum(tokens_cached) AS cached, sum(tokens_out) AS out,
            max(estimated) AS estimated, max(error) AS error,
            anyIf(status, status != 'part') AS status, max(reason) AS reason, count() AS rows
            FROM usage GROUP BY id, tenant"""
        found = {row["id"]: row for row in client.query(text).named_results()}
        client.close()
        return found


@pytest.fixture(scope="module")
def history(clickhouse_url: str) -> Iterator[str]:
    name = f"test_{uuid4().hex[:12]}"
    client = connect(clickhouse_url)
    client.command(f"CREATE DATABASE {name}")
    yield f"{clickhouse_url}/{name}"
    client.command(f"DROP DATABASE {name}")
    client.close()


@shared
async def site(
    brokers: str, history: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Site]:
    data = tmp_path_factory.mktemp("litellm")
    prefix = f"t{uuid4().hex[:8]}-"
    await asyncio.to_thread(installed)
    backend = Backend()
    control = await control_of(brokers, prefix)
    async with served(backend) as port:
        proxy = Proxy(data, port, brokers, prefix)
        sink = _history(brokers, prefix, history, data)
        try:
            await asyncio.to_thread(proxy.child.start)
            await asyncio.to_thread(sink.start)
            await proxy.ready()
            found = Site(proxy, backend, control, history)
            async with found.client:
                await decide(found)
                yield found
        finally:
            await asyncio.to_thread(proxy.child.stop)
            await asyncio.to_thread(sink.stop)
            await control.producer.stop()


async def decide(site: Site) -> None:
    """Have the proxy's gateway report, and then give it leases that live through the test."""
    # The first request starts the gateway, and waits there for a first decision: for a while.
    first = asyncio.create_task(answers(site))
    deadline_s = time.monotonic() + DEADLINE_S
    while not (reports := await site.control.reports()):
        assert time.monotonic() < deadline_s, site.proxy.child.tail()
        await asyncio.sleep(0.1)
    gateway = reports[0].gateway
    at_ms = int(time.time() * 1000) - 100 - EPOCH_MS
    life = {"expires_ms": at_ms + LIFE_MS, "floor_expires_ms": at_ms + LIFE_MS}
    lease = leases(gateway, RICH, POOR, at_ms=at_ms, **life)  # type: ignore[arg-type]
    await site.control.put(roster_key(POOL), encode(roster()))
    await site.control.put(leases_key(POOL, gateway, 0), encode(lease))
    await site.control.put(pool_key(POOL), encode(decision(at_ms)))
    served = await first
    while not served:
        assert time.monotonic() < deadline_s, site.proxy.child.tail()
        served = await answers(site)


async def answers(site: Site) -> bool:
    """Whether the rich tenant gets an answer; it is not looked at later."""
    try:
        await site.of("ela").chat.completions.create(model="mock", messages=PROMPT)
    except openai.InternalServerError:
        return False
    return True


def _history(brokers: str, prefix: str, clickhouse: str, data: Path) -> Child:
    config = Config(
        brokers=brokers,
        clickhouse=clickhouse,
        topic_prefix=prefix,
        application=f"{prefix}app",
        data=data,
        partitions=PARTITIONS,
    )
    command = [sys.executable, "-m", "streams", "history"]
    env = environment(os.environ, config, "0")
    return Child("history", command, log=data / "history.log", env=env, cwd=CHECKOUT)


async def test_a_refused_call_gets_the_429_with_our_header_fields_and_error_body(
    site: Site,
) -> None:
    poor = site.of("spo")
    ask = poor.chat.completions.create
    patient = poor.with_options(max_retries=3).chat.completions.create
    await patient(model="plain", messages=PROMPT, max_tokens=10)
    asked = site.backend.asked["plain"]
    with pytest.raises(openai.RateLimitError) as caught:
        await ask(model="plain", messages=PROMPT, max_tokens=10)
    headers, body = caught.value.response.headers, caught.value.body
    assert caught.value.status_code == 429
    # It was let in with its estimate there, and needs that again: 107 tokens at 20 a second.
    assert 1 <= int(headers["retry-after"]) <= 6
    assert headers["ratelimit"].startswith('"lease";r=0')
    assert headers["x-ratelimit-remaining-tokens"] == "0"
    assert headers["tokenweir-reason"] == "tokens"
    assert isinstance(body, dict)
    assert body["code"] == "rate_limit_exceeded"
    assert (body["reason"], body["tenant"], body["pool"]) == ("tokens", "spo", POOL)
    assert body["decision_id"] == headers["tokenweir-decision"]
    assert site.backend.asked["plain"] == asked


async def test_the_real_client_waits_as_it_was_told_and_then_succeeds(site: Site) -> None:
    patient = site.of("spo").with_options(max_retries=3)
    ask = patient.chat.completions.with_raw_response.create
    await ask(model="plain", messages=PROMPT, max_tokens=10)
    asked = site.backend.asked["plain"]
    found = await ask(model="plain", messages=PROMPT, max_tokens=10)
    assert found.retries_taken == 1
    assert site.backend.asked["plain"] == asked + 1


async def test_an_admitted_answer_says_what_is_left(site: Site) -> None:
    found = await site.ask("plain", "plain")
    assert found.parse().usage.total_tokens == 107
    assert int(found.headers["x-ratelimit-remaining-tokens"]) > 900_000
    assert found.headers["tokenweir-decision"].startswith(f"{POOL}@")


async def test_a_request_that_cannot_be_is_told_which_field(site: Site) -> None:
    with pytest.raises(openai.BadRequestError, match="n is 1000"):
        await site.of("ela").chat.completions.create(model="plain", messages=PROMPT, n=1000)


async def test_each_call_is_in_clickhouse_as_it_is_in_litellms_own_log(site: Site) -> None:
    await _call_in_every_way(site)
    proxy = site.proxy
    ended = set(site.seen)
    # The own log has a call a while after its answer; the gateway's last report comes at its end.
    await until(lambda: ended <= {line["id"] for line in proxy.counted()}, "LiteLLM has logged all")
    await asyncio.to_thread(proxy.child.stop)
    assert proxy.child.exit_code in (0, -15), proxy.child.tail()
    reports = await site.control.reports()
    assert reports[-1].closing
    rows = await _rows(site, ended)

    own: dict[str, list[int]] = {}
    for line in proxy.counted():
        counted = own.setdefault(line["id"], [0, 0])
        counted[0] += line["prompt_tokens"]
        counted[1] += line["completion_tokens"]
    ours = {id: [row["uncached"] + row["cached"], row["out"]] for id, row in rows.items()}
    told = {id: (site.seen[id], own[id], rows[id]) for id in ended if own[id] != ours[id]}
    # LiteLLM logs zeros where a provider gave no usage; ours is an estimate that says so. What its
    # cache answers it logs as used, though no model was asked.
    assert sorted(what for what, _, _ in told.values()) == ["cached", "cached", "mute"], told
    assert {id: found for id, found in ours.items() if id in ended and id not in told} == {
        id: own[id] for id in ended if id not in told
    }
    _look_at_each(site, rows)


async def _call_in_every_way(site: Site) -> None:
    """Each kind of call, at once: plain, streamed, cancelled, failed, without usage."""
    await asyncio.gather(
        *(site.ask("plain", "plain", user=f"u{number}") for number in range(5)),
        *(_stream(site, "streamed", "plain") for _ in range(3)),
        _stream(site, "with usage", "plain", stream_options={"include_usage": True}),
        _stream(site, "mute streamed", "mute"),
        site.ask("mute", "mute"),
        site.ask("mock", "mock"),
        site.ask("retried", "once"),
        *(_stream(site, "cancelled", "slow", pieces) for pieces in (1, 10)),
        _fails(site, "failed", "broken"),
        _fails(site, "failed", "broken", stream=True),
        _breaks(site),
        _cached(site),
        _hangs_up(site),
        site.post("embedded", "/v1/embeddings", model="plain", input="abc"),
        site.post("responses", "/v1/responses", model="plain", input="abc"),
        site.post("responses", "/v1/responses", model="plain", input="abc", stream=True),
        site.post("messages", "/v1/messages", model="plain", max_tokens=50, messages=PROMPT),
        site.post(
            "messages",
            "/v1/messages",
            model="plain",
            max_tokens=50,
            messages=PROMPT,
            stream=True,
        ),
    )


async def _stream(site: Site, what: str, model: str, pieces: int = 1000, **fields: Any) -> None:
    """Read a stream, or hang up after so many pieces."""
    found = await site.ask(what, model, stream=True, **fields)
    stream = found.parse()
    count = 0
    async for chunk in stream:
        count += bool(chunk.choices and chunk.choices[0].delta.content)
        if count >= pieces:
            break
    await stream.close()


async def _fails(site: Site, what: str, model: str, **fields: Any) -> None:
    with pytest.raises(openai.InternalServerError):
        await site.ask(what, model, **fields)


async def _hangs_up(site: Site) -> None:
    """A client that does not wait for a whole answer."""
    asking = asyncio.create_task(site.ask("hung up", "late"))
    await until(lambda: site.backend.asked["late"], "the backend works on it")
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def _cached(site: Site) -> None:
    """LiteLLM's cache answers the second of each."""
    wanted: Any = {"max_tokens": 99, "extra_body": {"cache": {"use-cache": True}}}
    await site.ask("plain", "plain", **wanted)
    await site.ask("cached", "plain", **wanted)
    await _stream(site, "streamed", "plain", **wanted)
    await _stream(site, "cached", "plain", **wanted)


async def _breaks(site: Site) -> None:
    """A stream whose backend goes away in the middle."""
    with pytest.raises(openai.APIError):
        await _stream(site, "broken", "breaks")


async def _rows(site: Site, ended: set[str]) -> Rows:
    deadline_s = time.monotonic() + DEADLINE_S
    while not ended <= set(rows := await asyncio.to_thread(site.rows)):
        assert time.monotonic() < deadline_s, ended - set(rows)
        await asyncio.sleep(0.2)
    return rows


def _look_at_each(site: Site, rows: Rows) -> None:
    for id, what in site.seen.items():
        row = rows[id]
        assert row["tenant"] == "ela"
        assert (what, row["estimated"]) == (what, what in GUESSED)
        assert (what, row["error"]) == (what, what in ("failed", "broken"))
        assert (what, row["status"]) == (what, "cancelled" if what in GONE else "done")
        if what == "cached":
            assert (row["uncached"], row["cached"], row["out"], row["reason"]) == (0, 0, 0, "cache")
    plain = next(rows[id] for id, what in site.seen.items() if what == "plain")
    assert (plain["uncached"], plain["cached"], plain["out"]) == (60, 40, 7)
    users = {rows[id]["user"] for id, what in site.seen.items() if what == "plain"}
    assert users == {"bo", *(f"u{number}" for number in range(5))}
