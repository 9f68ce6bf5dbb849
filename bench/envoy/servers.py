"""The two servers that are measured."""

import asyncio
from collections.abc import Callable, Coroutine
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

import grpc.aio

from bench.admission.leases import POOL, lease
from tokenweir.adapters.envoy import EnvoyService
from tokenweir.adapters.envoy.service import LIMITS
from tokenweir.adapters.envoy.wire_pb2 import RateLimitRequest, RateLimitResponse
from tokenweir.gateway import Gateway
from tokenweir.gateway.monotonic import boot_ms

Serve: TypeAlias = Callable[[Connection], Coroutine[Any, Any, None]]
CUT_S = 0.5  # a gateway reports about so often


def run(serve: Serve, told: Connection) -> None:
    """Serve in a process of its own; its port is told first."""
    asyncio.run(serve(told))


async def ours(told: Connection) -> None:
    """The service on a gateway that knows every tenant, and reports to nobody."""
    gateway = Gateway(brokers="nowhere:1", name="bench", pools=[POOL])
    gate = gateway._lanes[POOL].gate
    lease(gate, boot_ms())
    told.send(await EnvoyService(gateway).start("127.0.0.1:0"))
    while True:
        await asyncio.sleep(CUT_S)
        gate.cut(boot_ms())


async def bare(told: Connection) -> None:
    """A server that reads the request and says yes."""

    async def yes(_: RateLimitRequest, __: object) -> RateLimitResponse:
        return RateLimitResponse(overall_code=RateLimitResponse.OK)

    read, write = RateLimitRequest.FromString, RateLimitResponse.SerializeToString
    handler = grpc.unary_unary_rpc_method_handler(yes, read, write)
    server = grpc.aio.server()
    made = grpc.method_handlers_generic_handler(LIMITS, {"ShouldRateLimit": handler})
    server.add_generic_rpc_handlers((made,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    told.send(port)
    await server.wait_for_termination()
