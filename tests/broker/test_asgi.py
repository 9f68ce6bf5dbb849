"""The real openai client against the example gateway, on a real server and a real broker."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import uvicorn
from openai import AsyncOpenAI, AsyncStream, InternalServerError, RateLimitError
from openai.types.chat import ChatCompletionChunk

from examples import openai_gateway
from tests.broker.test_gateway import Control, control_of, until
from tests.unit.gateway.made import POOL
from tokenweir.gateway import Gateway
from tokenweir.gateway.monotonic import boot_ms
from tokenweir.records.usage import RequestsBlock, UsageReport
from tokenweir.wire import decode_as

pytestmark = pytest.mark.broker
HELLO = [{"role": "user", "content": "Hello"}]  # 2 tokens as estimated, 1 as used


class Clock:
    """The machine's, which can be held."""

    def __init__(self) -> None:
        self._held_ms: int | None = None

    def __call__(self) -> int:
        return boot_ms() if self._held_ms is None else self._held_ms

    def hold(self) -> None:
        self._held_ms = boot_ms()

    def go_on(self) -> None:
        """At the moment that it is."""
        self._held_ms = None


@dataclass
class Served:
    """The example gateway at work."""

    control: Control
    gateway: Gateway
    clock: Clock
    url: str

    def client(self, tenant: str, retries: int = 0) -> AsyncOpenAI:
        return AsyncOpenAI(
            base_url=f"{self.url}/v1", api_key=f"{tenant}:bo", max_retries=retries, timeout=150
        )

    async def lease(self, tenant: str, rate: int, burst: int) -> None:
        """Lease it tokens, and wait until its bucket is full."""
        await self.control.decide(self.gateway.id, (tenant, rate, burst, 0))
        await until(lambda: self.remaining(tenant) == burst, "the bucket is full")

    def refused(self, tenant: str) -> int:
        return self.gateway.stats(POOL).tenants[tenant].refused.get("tokens", 0)

    def remaining(self, tenant: str) -> int:
        found = self.gateway.stats(POOL).tenants.get(tenant)
        return found.remaining if found else -1


@asynccontextmanager
async def served(control: Control) -> AsyncIterator[Served]:
    clock = Clock()
    gateway = Gateway(
        brokers=control.brokers, name="edge", pools=[POOL], prefix=control.prefix, clock=clock
    )
    app = openai_gateway.guarded(gateway, POOL)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        running = asyncio.create_task(server.serve(sockets=[listening]))
        await until(lambda: server.started or running.done(), "the server is up")
        yield Served(control, gateway, clock, f"http://127.0.0.1:{listening.getsockname()[1]}")
        server.should_exit = True
        await running


@pytest.fixture
async def control(brokers: str, prefix: str) -> AsyncIterator[Control]:
    played = await control_of(brokers, prefix)
    yield played
    await played.producer.stop()


def out_tokens(reports: Iterable[UsageReport]) -> int:
    return sum(sum(report.totals.tokens_out) for report in reports)


def ends(reports: Iterable[UsageReport]) -> Sequence[tuple[str, bool, str]]:
    """Status, estimated and reason of each request's last row."""
    found = []
    for report in reports:
        block = decode_as(RequestsBlock, report.requests) if report.requests else None
        if block is None:
            continue
        reasons = block.reason or [0] * len(block.id)
        for status, estimated, reason in zip(block.status, block.estimated, reasons, strict=True):
            if status != "part":
                found.append((status, estimated, block.names[reason]))
    return found


async def test_the_clients_own_retry_waits_as_told_and_then_succeeds(control: Control) -> None:
    """100 tokens/s: who owes 250 is told to come back in 2.5 s, and does."""
    async with served(control) as edge:
        async with edge.client("ela") as early:
            with pytest.raises(InternalServerError) as unready:
                await early.chat.completions.create(model="m", messages=HELLO)  # type: ignore[arg-type]
            assert unready.value.body["reason"] == "no_decision"  # type: ignore[index]

            await edge.lease("ela", 100, 100)
            edge.clock.hold()
            held = edge.gateway.request(tenant="ela", pool=POOL, estimate=350)
            async with held:
                held.settle(uncached=350, out=0)
            with pytest.raises(RateLimitError) as told:
                await early.chat.completions.create(model="m", messages=HELLO, max_tokens=5)  # type: ignore[arg-type]
            patient = early.with_options(max_retries=1).chat.completions.with_raw_response
            begun_s = time.monotonic()
            asking: asyncio.Task[Any] = asyncio.create_task(
                patient.create(model="m", messages=HELLO, max_tokens=5)  # type: ignore[arg-type]
            )
            await until(lambda: edge.refused("ela") == 2, "it is refused too")
            edge.clock.go_on()
            answer = await asking
            waited_s = time.monotonic() - begun_s
        error, headers = told.value, told.value.response.headers
        assert error.code == "rate_limit_exceeded"
        assert error.body["owed"] == 250  # type: ignore[index]
        assert 2500 <= float(headers["retry-after-ms"]) < 2600
        assert headers["retry-after"] == "3"
        assert headers["x-ratelimit-remaining-tokens"] == "0"
        usage = answer.parse().usage
        assert usage is not None
        assert usage.completion_tokens == 5
        # It came back once, and not before the time that it was told.
        assert answer.retries_taken == 1
        assert waited_s > 2.4
    reports = await control.reports()
    assert ends(reports).count(("refused", False, "tokens")) == 2
    assert out_tokens(reports) == 5


async def test_streams_are_metered_as_they_run_and_the_client_sees_what_it_asked_for(
    control: Control,
) -> None:
    async with served(control) as edge:
        await edge.lease("ela", 1000, 1000)
        async with edge.client("ela") as client:
            plain = [chunk async for chunk in await _stream(client, 30)]
            asked = [chunk async for chunk in await _stream(client, 30, include_usage=True)]
        assert all(chunk.usage is None and chunk.choices for chunk in plain)
        assert asked[-1].usage is not None
        assert asked[-1].usage.completion_tokens == 30
        assert len(asked) == len(plain) + 1
        text = "".join(chunk.choices[0].delta.content or "" for chunk in plain)
        assert text.count(" ") == 30
    reports = await control.reports()
    assert out_tokens(reports) == 60
    assert sum(1 for report in reports if out_tokens([report])) >= 2  # as they ran (T6)
    assert ends(reports) == [("done", False, "")] * 2


async def test_a_client_that_hangs_up_is_charged_what_was_produced(control: Control) -> None:
    """Field note 1, through a real server: marked, never zero, and the hold comes back."""
    async with served(control) as edge:
        await edge.lease("ela", 1000, 1000)
        async with edge.client("ela") as client:
            stream = await _stream(client, 40)
            for _ in range(6):
                await anext(stream)
            await stream.close()
        await until(lambda: edge.gateway.stats(POOL).in_flight == 0, "the server has noticed")
    reports = await control.reports()
    ((status, estimated, reason),) = ends(reports)
    assert (status, estimated, reason) == ("cancelled", True, "disconnected")
    assert 5 <= out_tokens(reports) < 40


async def _stream(
    client: AsyncOpenAI, tokens: int, include_usage: bool = False
) -> AsyncStream[ChatCompletionChunk]:
    options = {"stream_options": {"include_usage": True}} if include_usage else {}
    return await client.chat.completions.create(  # type: ignore[no-any-return, call-overload]
        model="m", messages=HELLO, max_tokens=tokens, stream=True, **options
    )
