"""A real Envoy in front of a backend, the service beside it, and the control plane played."""

import asyncio
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientResponse, ClientSession

from streams.config import CHECKOUT, Config
from streams.parts import environment
from streams.supervise import Child
from tests.broker.envoy_parts import Backend, envoy, served
from tests.broker.test_gateway import DEADLINE_S, PARTITIONS, Control, control_of, until
from tests.unit.gateway.made import POOL, Row
from tokenweir.history.client import connect
from tokenweir.records.usage import RequestsBlock
from tokenweir.wire import decode_as

pytestmark = pytest.mark.broker
LOAD_S = 6.0
RATE = 1000  # tokens/s, and its burst in tokens
PROMPT, OUT = 50, 150  # tokens of each request under load
SERVED = "serves Envoy on"


@dataclass(frozen=True)
class Answered:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def error(self) -> Any:
        return json.loads(self.body)["error"]


class Service:
    """`python -m tokenweir.adapters.envoy` as a process."""

    def __init__(self, control: Control, data: Path) -> None:
        options = ["--pool", POOL, "--prefix", control.prefix, "--port", "0", "--name", "edge"]
        module = [sys.executable, "-m", "tokenweir.adapters.envoy"]
        self.child = Child(
            "service",
            [*module, "--brokers", control.brokers, *options],
            log=data / "service.log",
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            cwd=CHECKOUT,
        )

    async def start(self) -> tuple[str, int]:
        """Its gateway's id and its port."""
        await asyncio.to_thread(self.child.start)
        await until(lambda: SERVED in self.child.tail(100), "the service listens")
        said = re.search(rf"gateway (\S+) {SERVED} \S+:(\d+)", self.child.tail(100))
        assert said
        return said[1], int(said[2])


class Site:
    """Everything there is, and a client of it."""

    def __init__(self, url: str, control: Control, gateway: str, service: Child) -> None:
        self.url, self.control, self.gateway, self.service = url, control, gateway, service
        self.backend = Backend()
        self.client: ClientSession

    async def lease(self, *rows: Row, **changes: Any) -> None:
        """A decision, and wait until it is obeyed."""
        await self.control.decide(self.gateway, *rows, **changes)
        await self.until(lambda found: found.status != 503)

    async def until(self, true: Callable[[Answered], bool]) -> None:
        end_s = time.monotonic() + DEADLINE_S
        while not true(await self.ask("unknown", max_tokens=0)):
            assert time.monotonic() < end_s, self.service.tail()
            await asyncio.sleep(0.1)

    async def ask(self, tenant: str, **fields: Any) -> Answered:
        """One request, answered whole."""
        async with self.request(tenant, **fields) as response:
            return Answered(response.status, response.headers, await response.read())

    async def leave(self, tenant: str, pieces: int, **fields: Any) -> None:
        """One request of a client that goes away after so many pieces of its answer."""
        async with self.request(tenant, stream=True, **fields) as response:
            async for line in response.content:
                pieces -= line.startswith(b"data:")
                if not pieces:
                    return

    def request(
        self, tenant: str, *, max_tokens: int = OUT, headers: Any = (), **fields: Any
    ) -> AbstractAsyncContextManager[ClientResponse]:
        """One request."""
        content = "x" * 4 * PROMPT
        body = {
            "model": "m",
            "messages": [{"role": "user", "content": content}],
            "max_tokens": max_tokens,
            **fields,
        }
        who = {"x-tenant": tenant, "x-user": "bo", **dict(headers)}
        url = f"{self.url}/v1/chat/completions"
        return self.client.post(url, json=body, headers=who)


@asynccontextmanager
async def site_on(
    brokers: str, prefix: str, data: Path, hits: int | None = None
) -> AsyncIterator[Site]:
    control = await control_of(brokers, prefix)
    service = Service(control, data)
    gateway, port = await service.start()
    site = Site("", control, gateway, service.child)
    try:
        async with (
            served(site.backend) as backend,
            envoy(data, port, backend, hits) as url,
            ClientSession() as client,
        ):
            site.url, site.client = url, client
            yield site
    finally:
        await asyncio.to_thread(service.child.stop)
        await control.producer.stop()


@pytest.fixture
async def site(brokers: str, prefix: str, tmp_path: Path) -> AsyncIterator[Site]:
    async with site_on(brokers, prefix, tmp_path) as opened:
        yield opened


@pytest.mark.clickhouse
async def test_under_load_no_more_passes_than_the_lease_and_clickhouse_has_what_the_backend_served(
    site: Site, database: str, tmp_path: Path
) -> None:
    config = Config(
        brokers=site.control.brokers,
        clickhouse=database,
        topic_prefix=site.control.prefix,
        application=f"{site.control.prefix}app",
        data=tmp_path,
        partitions=PARTITIONS,
    )
    command = [sys.executable, "-m", "streams", "history"]
    env = environment(os.environ, config, "0")
    history = Child("history", command, log=tmp_path / "history.log", env=env, cwd=CHECKOUT)
    await asyncio.to_thread(history.start)
    await site.lease(("ela", RATE, RATE, 0), ("spo", RATE, RATE, 0))
    statuses: Counter[tuple[str, int]] = Counter()
    refusals: list[Answered] = []
    started_s = time.monotonic()

    async def one(tenant: str, number: int) -> None:
        await asyncio.sleep(number * LOAD_S / 150)
        response = await site.ask(tenant, stream=number % 3 > 0)
        statuses[tenant, response.status] += 1
        if response.status != 200:
            refusals.append(response)

    # Five times of what the pool gives: 2 x 150 requests of 200 tokens in 6 s.
    await asyncio.gather(*(one(t, n) for t in ("ela", "spo") for n in range(150)))
    lasted_s = time.monotonic() - started_s

    for tenant in ("ela", "spo"):
        passed = statuses[tenant, 200] * (PROMPT + OUT)
        # Its lease over the time, one burst, and one request.
        assert passed <= RATE * lasted_s + RATE + PROMPT + OUT
        assert passed >= 0.7 * RATE * LOAD_S  # and it is no wall
    assert {status for _, status in statuses} == {200, 429}
    for response in refusals:
        assert 1 <= int(response.headers["retry-after"]) <= 60
        assert response.headers["content-type"] == "application/json"
        assert response.headers["ratelimit"].startswith('"lease";r=')
        assert response.headers["tokenweir-reason"] == response.error()["reason"] == "tokens"
        assert response.headers["tokenweir-decision"] == response.error()["decision_id"]

    await asyncio.to_thread(site.service.stop)  # what it has is reported before it ends
    assert site.service.exit_code == 0, site.service.tail()
    wanted = [
        (tenant, *(site.backend.served[tenant, kind] for kind in ("uncached", "cached", "out")))
        for tenant in ("ela", "spo")
    ]
    found: list[tuple[Any, ...]] = []
    await until(lambda: asked(database, found) == wanted, f"{wanted} in ClickHouse: {found}")
    await asyncio.to_thread(history.stop)


def asked(database: str, found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Tokens by tenant in the history; `found` is what was seen last."""
    sql = (
        "SELECT tenant, sum(tokens_uncached), sum(tokens_cached), sum(tokens_out) FROM usage "
        "WHERE tenant != 'unknown' AND NOT estimated GROUP BY tenant ORDER BY tenant"
    )
    try:
        client = connect(database)
        found[:] = [tuple(row) for row in client.query(sql).result_rows]
        client.close()
    except Exception as error:  # it has no tables yet
        found[:] = [(error,)]
    return found


async def test_what_envoy_answers_in_each_case(site: Site) -> None:
    refused = await site.ask("ela")
    assert refused.status == 503  # nothing is decided yet: not the caller's fault
    assert refused.headers["tokenweir-reason"] == "no_decision"
    await site.lease(("ela", 100_000, 100_000, 0))
    await until_async(lambda: site.ask("ela"), 200)

    cases: dict[str, dict[str, Any]] = {
        "JSON": {"max_tokens": 7},
        "a stream": {"max_tokens": 7, "stream": True},
        "no usage": {"max_tokens": 7, "model": "mute"},
        "an error": {"max_tokens": 7, "model": "broken"},
    }
    found = {case: await site.ask("ela", **fields) for case, fields in cases.items()}
    assert [response.status for response in found.values()] == [200, 200, 200, 404]
    assert all("ratelimit" in response.headers for response in found.values())
    assert site.backend.bodies[-3]["stream_options"] == {"include_usage": True}
    assert b"usage" not in found["a stream"].body
    assert found["a stream"].body.count(b"hi ") == 7

    forged = await site.ask("ela", headers={"x-tokenweir-call": "x"}.items())
    assert forged.status == 200
    nonsense = await site.ask("ela", headers={"x-priority": "urgent"}.items())
    assert nonsense.status == 400
    assert "priority is 'urgent'" in nonsense.error()["message"]
    async with site.client.get(f"{site.url}/v1/models") as models:
        assert models.status == 200

    # A client that goes away in the middle of its answer.
    await site.leave("ela", 10, model="slow", max_tokens=1000)
    rows = await settled(site, "slow")
    assert rows[-1]["status"] == "cancelled"
    assert rows[-1]["estimated"]
    assert 5 <= sum(row["out"] for row in rows) <= site.backend.sent["slow"] < 1000

    await asyncio.to_thread(site.service.kill)
    away = await site.ask("ela")
    assert away.status == 503  # failure_mode_deny: nothing passes unmetered
    assert "ratelimit" not in away.headers


async def test_hits_addend_is_the_estimate(brokers: str, prefix: str, tmp_path: Path) -> None:
    async with site_on(brokers, prefix, tmp_path, hits=333) as site:
        await site.lease(("ela", 100_000, 100_000, 0))
        await until_async(lambda: site.ask("ela"), 200)
        rows = await settled(site, "")
    # Nothing says which call it is, so that nobody can settle it: an estimate, marked as one.
    done = [row for row in rows if row["status"] == "done"]
    assert [(row["uncached"], row["out"], row["estimated"]) for row in done] == [(333, 0, True)]


async def until_async(ask: Callable[[], Any], status: int) -> None:
    end_s = time.monotonic() + DEADLINE_S
    while (await ask()).status != status:
        assert time.monotonic() < end_s
        await asyncio.sleep(0.05)


async def settled(site: Site, model: str, deadline_s: float = DEADLINE_S) -> list[dict[str, Any]]:
    """The reported rows of a model, once one of them is its end."""
    end_s = time.monotonic() + deadline_s
    while time.monotonic() < end_s:
        rows = [row for row in await reported(site.control) if row["model"] == model]
        if rows and rows[-1]["status"] not in ("part", "refused"):
            return rows
        await asyncio.sleep(0.2)
    raise AssertionError(f"{model} is not settled")


async def reported(control: Control) -> list[dict[str, Any]]:
    """Every row of the usage topic."""
    rows: list[dict[str, Any]] = []
    for report in await control.reports():
        block = decode_as(RequestsBlock, report.requests) if report.requests else None
        if block is not None:
            rows += [
                {
                    "model": block.names[block.model[n]] if block.model else "",
                    "status": block.status[n],
                    "estimated": bool(block.estimated) and block.estimated[n],
                    "uncached": block.tokens_uncached[n] if block.tokens_uncached else 0,
                    "out": block.tokens_out[n] if block.tokens_out else 0,
                }
                for n in range(len(block.id))
            ]
    return rows
