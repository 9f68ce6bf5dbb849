"""A client of ASGI apps in the same process, and backends that answer as a test says."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from tests.unit.gateway.made import EPOCH_MS, POOL, Row, barred, give
from tokenweir.adapters.asgi.caller import App, Message, Receive, Scope, Send
from tokenweir.gateway import Gateway
from tokenweir.gateway.pool import PoolGate
from tokenweir.gateway.rows import Row as Kept

CHAT = "/v1/chat/completions"


class Clock:
    now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


@dataclass
class Pool:
    """A gateway without Kafka: its core hears what the test says, on the test's clock."""

    clock: Clock = field(default_factory=Clock)
    pools: tuple[str, ...] = (POOL,)

    def __post_init__(self) -> None:
        self.gateway = Gateway(brokers="nowhere:1", name="edge", pools=self.pools, clock=self.clock)

    def gate(self, pool: str = POOL) -> PoolGate:
        return self.gateway._lanes[pool].gate

    def lease(self, *rows: Row, **given: Any) -> None:
        """Leases a second old, so that their buckets are full."""
        gate = self.gate()
        gate.acknowledged(EPOCH_MS + self.clock.now_ms, self.clock.now_ms, self.clock.now_ms)
        give(gate, self.clock.now_ms, *rows, **given)
        self.clock.now_ms += 1000

    def revoke(self, tenant: str, for_ms: int) -> None:
        """Its entitlement is revoked for so long."""
        now_ms = self.clock.now_ms
        self.gateway._lanes[POOL].hear(barred(now_ms, (tenant, "revoked", now_ms + for_ms)))

    def later(self, ms: int) -> None:
        """Time passes, and whose time has come is served."""
        self.clock.now_ms += ms
        self.gateway._lanes[POOL]._serve()

    def rows(self) -> list[dict[str, Any]]:
        """The rows that the next report would carry."""
        return [_row(row) for row in self.gate().rows]


def _row(row: Kept) -> dict[str, Any]:
    names = ("id", "attempt", "tenant", "user", "model", "operation", "provider_tier", "reason")
    more = ("status", "flow", "priority", "uncached", "cache_write", "cached", "out", "refused")
    return dict(zip((*names, *more, "estimated", "error"), row, strict=False))


@dataclass
class Answered:
    """What a client got; `parts` are the body's pieces as they came."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    parts: list[bytes] = field(default_factory=list)
    whole: bool = False

    @property
    def body(self) -> bytes:
        return b"".join(self.parts)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """One request. `leave` hangs up."""

    def __init__(self, app: App, body: Any, path: str = CHAT, **headers: str) -> None:
        self.answer = Answered()
        self._gone = asyncio.Event()
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._messages: list[Message] = [
            {"type": "http.request", "body": raw[:7], "more_body": True},
            {"type": "http.request", "body": raw[7:], "more_body": False},
        ]
        fields = {"content-length": str(len(raw)), "accept-encoding": "gzip", **headers}
        self._scope: Scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "headers": [(k.replace("_", "-").encode(), v.encode()) for k, v in fields.items()],
        }
        self._app = app

    async def ask(self) -> Answered:
        await self._app(self._scope, self._receive, self._send)
        return self.answer

    def leave(self) -> None:
        self._gone.set()

    async def _receive(self) -> Message:
        if self._messages:
            return self._messages.pop(0)
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.answer.status = message["status"]
            self.answer.headers = {k.decode(): v.decode() for k, v in message["headers"]}
            return
        self.answer.parts.append(message["body"])
        self.answer.whole = not message.get("more_body", False)


async def body_of(receive: Receive) -> Any:
    message = await receive()
    assert message["more_body"] is False
    return json.loads(message["body"])


def backend(answer: Any = None, status: int = 200, seen: list[Any] | None = None) -> App:
    """Answers with this JSON, and notes the bodies and the scopes that it was given."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if seen is not None:
            seen.append((await body_of(receive), scope))
        await start(send, status, "application/json")
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})

    return app


def streaming(
    *parts: bytes, between: Callable[[int, Receive], Awaitable[bool]] | None = None
) -> App:
    """Sends these pieces; `between` may end it early by saying False."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await body_of(receive)
        await start(send, 200, "text/event-stream; charset=utf-8")
        for number, part in enumerate(parts):
            if between is not None and not await between(number, receive):
                return
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    return app


async def start(send: Send, status: int, content_type: str) -> None:
    headers = [(b"content-type", content_type.encode()), (b"x-ratelimit-limit-tokens", b"1")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
