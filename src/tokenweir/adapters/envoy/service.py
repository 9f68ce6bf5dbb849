"""The gRPC server that an Envoy asks: rate limits and external processing, on one port."""

from collections.abc import AsyncIterator

import grpc
import grpc.aio

from tokenweir.adapters.envoy.degrade import Degrade
from tokenweir.adapters.envoy.descriptors import Defaults
from tokenweir.adapters.envoy.exchange import Exchange
from tokenweir.adapters.envoy.limits import RateLimits
from tokenweir.adapters.envoy.wire_pb2 import (
    ProcessingRequest,
    ProcessingResponse,
    RateLimitRequest,
    RateLimitResponse,
)
from tokenweir.adapters.openai.ask import Count, bytes_by_four
from tokenweir.errors import Unavailable
from tokenweir.gateway import Gateway

LIMITS = "envoy.service.ratelimit.v3.RateLimitService"
PROCESSOR = "envoy.service.ext_proc.v3.ExternalProcessor"
DRAIN_S = 30.0
# A body comes whole; how long it may be is said in Envoy's configuration.
_OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.so_reuseport", 0))


class EnvoyService:
    """Serves one Envoy beside it: both services of a request must be answered by one process.

    `count` estimates the tokens of a text; `degrade` is what is done to requests before that.
    """

    def __init__(
        self,
        gateway: Gateway,
        *,
        defaults: Defaults | None = None,
        count: Count = bytes_by_four,
        degrade: Degrade | None = None,
    ) -> None:
        self._count = count
        self._degrade = degrade
        self._exchanges: dict[str, Exchange] = {}
        self._limits = RateLimits(gateway, self._exchanges, defaults or Defaults())
        self._server = grpc.aio.server(options=_OPTIONS)
        self._server.add_generic_rpc_handlers((self._limit_handler(), self._process_handler()))

    async def start(self, address: str) -> int:
        """Listen on `host:port` (0: any free port) or `unix:path`; returns the port."""
        try:
            port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise Unavailable(f"cannot listen on {address}: {error}") from error
        await self._server.start()
        return int(port)

    async def stop(self, drain_s: float = DRAIN_S) -> None:
        """Take no new requests; those that run are metered until they end, or the time is over."""
        await self._server.stop(drain_s)

    async def process(
        self,
        requests: AsyncIterator[ProcessingRequest],
        _: "grpc.aio.ServicerContext[ProcessingRequest, ProcessingResponse]",
    ) -> AsyncIterator[ProcessingResponse]:
        """One HTTP exchange, message by message; whatever ends it, its calls are settled."""
        exchange = Exchange(self._count, self._degrade)
        try:
            async for request in requests:
                reply = exchange.reply(request)
                self._exchanges.setdefault(exchange.id, exchange)
                yield reply
        finally:
            self._exchanges.pop(exchange.id, None)
            exchange.close()

    def _limit_handler(self) -> grpc.GenericRpcHandler:
        handler = grpc.unary_unary_rpc_method_handler(
            self._limits.should_limit,
            RateLimitRequest.FromString,
            RateLimitResponse.SerializeToString,
        )
        return grpc.method_handlers_generic_handler(LIMITS, {"ShouldRateLimit": handler})

    def _process_handler(self) -> grpc.GenericRpcHandler:
        handler = grpc.stream_stream_rpc_method_handler(
            self.process, ProcessingRequest.FromString, ProcessingResponse.SerializeToString
        )
        return grpc.method_handlers_generic_handler(PROCESSOR, {"Process": handler})
