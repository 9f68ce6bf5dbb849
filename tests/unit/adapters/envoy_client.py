"""Speaks to the service as Envoy does, over gRPC: a request to the processor and the limits."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc.aio

from tests.unit.adapters.served import Pool
from tests.unit.gateway.made import POOL
from tokenweir.adapters.envoy import Degrade, EnvoyService
from tokenweir.adapters.envoy.service import LIMITS, PROCESSOR
from tokenweir.adapters.envoy.wire_pb2 import (
    Body,
    Descriptor,
    HeaderMap,
    Headers,
    HeaderValue,
    ProcessingRequest,
    ProcessingResponse,
    RateLimitRequest,
    RateLimitResponse,
)

Asked = dict[str, Any]
ASK: Asked = {"model": "m", "messages": [{"role": "user", "content": "x" * 200}], "max_tokens": 100}
USAGE = {"prompt_tokens": 50, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 8}}


def descriptor(hits: int | None = None, /, **entries: str) -> Descriptor:
    made = Descriptor(entries=[Descriptor.Entry(key=k, value=v) for k, v in entries.items()])
    if hits is not None:
        made.hits_addend.value = hits
    return made


@dataclass
class Client:
    """One connection of an Envoy."""

    channel: grpc.aio.Channel

    async def limit(
        self, *descriptors: Descriptor, hits: int = 0, timeout_s: float = 60
    ) -> RateLimitResponse:
        """Ask whether a request may go."""
        call = self.channel.unary_unary(
            f"/{LIMITS}/ShouldRateLimit",
            RateLimitRequest.SerializeToString,
            RateLimitResponse.FromString,
        )
        request = RateLimitRequest(domain=POOL, descriptors=descriptors, hits_addend=hits)
        response: RateLimitResponse = await call(request, timeout=timeout_s)
        return response

    def exchange(self) -> "Passing":
        """Begin an HTTP exchange."""
        method = self.channel.stream_stream(
            f"/{PROCESSOR}/Process",
            ProcessingRequest.SerializeToString,
            ProcessingResponse.FromString,
        )
        return Passing(self, method())


@dataclass
class Passing:
    """One HTTP exchange: `headers` are the request's, as the processor has changed them."""

    client: Client
    stream: Any
    headers: dict[str, str] = field(default_factory=dict)

    async def send(self, **message: Any) -> ProcessingResponse:
        """One message and its answer."""
        await self.stream.write(ProcessingRequest(**message))
        reply: ProcessingResponse = await self.stream.read()
        return reply

    async def request(self, body: bytes, path: str = "/v1/chat/completions", **more: str) -> bytes:
        """The request's header and body; returns the body that goes on."""
        self.headers = {":method": "POST", ":path": path, "x-request-id": "req-1", **more}
        self._change(await self.send(request_headers=headers_of(self.headers)), "request_headers")
        reply = await self.send(request_body=Body(body=body, end_of_stream=True))
        self._change(reply, "request_body")
        mutation = reply.request_body.response.body_mutation
        return mutation.body if mutation.HasField("mutation") else body

    async def limit(self, tenant: str = "ela") -> RateLimitResponse:
        """Ask for the limits as the example's configuration does."""
        call = self.headers["x-tokenweir-call"]
        return await self.client.limit(descriptor(tenant=tenant, user="bo", call=call))

    async def ask(self, tenant: str = "ela", **changes: Any) -> RateLimitResponse:
        """A request from its beginning to its admission."""
        await self.request(json.dumps({**ASK, **changes}).encode())
        return await self.limit(tenant)

    async def answer(
        self, *parts: bytes, status: int = 200, kind: str = "application/json", end: bool = True
    ) -> bytes:
        """The backend's answer; returns the body that goes on."""
        headers = headers_of({":status": str(status), "content-type": kind})
        await self.send(response_headers=headers)
        passed = b""
        for number, part in enumerate(parts, 1):
            last = end and number == len(parts)
            reply = await self.send(response_body=Body(body=part, end_of_stream=last))
            mutation = reply.response_body.response.body_mutation
            passed += mutation.body if mutation.HasField("mutation") else part
        return passed

    async def close(self) -> None:
        """The exchange is over."""
        await self.stream.done_writing()
        assert await self.stream.read() is grpc.aio.EOF

    def _change(self, reply: ProcessingResponse, what: str) -> None:
        mutation = getattr(reply, what).response.header_mutation
        for name in mutation.remove_headers:
            self.headers.pop(name, None)
        for option in mutation.set_headers:
            self.headers[option.header.key] = option.header.raw_value.decode()


def headers_of(found: dict[str, str]) -> Headers:
    pairs = [HeaderValue(key=name, raw_value=value.encode()) for name, value in found.items()]
    return Headers(headers=HeaderMap(headers=pairs))


@asynccontextmanager
async def connected(pool: Pool, degrade: Degrade | None = None) -> AsyncIterator[Client]:
    """A service on the pool's gateway, and an Envoy that knows it."""
    service = EnvoyService(pool.gateway, degrade=degrade)
    port = await service.start("127.0.0.1:0")
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield Client(channel)
    await service.stop(0)
