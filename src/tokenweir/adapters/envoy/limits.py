"""The rate limit service: each descriptor is a request to the gateway."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import grpc

from tokenweir.adapters.envoy import verdict
from tokenweir.adapters.envoy.descriptors import Defaults, Wanted, wanted
from tokenweir.adapters.envoy.exchange import Exchange
from tokenweir.adapters.envoy.wire_pb2 import RateLimitRequest, RateLimitResponse
from tokenweir.errors import BadInput
from tokenweir.gateway import Call, Gateway, Refused
from tokenweir.gateway.standing import Standing

LOG = logging.getLogger(__name__)
MARGIN = 0.1  # of the patience that Envoy has: a wait ends so much before it gives the call up


class RateLimits:
    """Answers `ShouldRateLimit`. What it admits belongs to its exchange in `exchanges`."""

    def __init__(
        self, gateway: Gateway, exchanges: Mapping[str, Exchange], defaults: Defaults
    ) -> None:
        self._gateway = gateway
        self._exchanges = exchanges
        self._defaults = defaults

    async def should_limit(
        self,
        request: RateLimitRequest,
        context: "grpc.aio.ServicerContext[RateLimitRequest, RateLimitResponse]",
    ) -> RateLimitResponse:
        """Admit all descriptors or none; waits as long as classes and Envoy's time-out let it."""
        left_s = context.time_remaining()
        patience_s = None if left_s is None else left_s * (1 - MARGIN)
        count = len(request.descriptors)
        wants: list[Wanted] = []
        calls: list[Call] = []
        try:
            for descriptor in request.descriptors:
                wants.append(wanted(request, descriptor, self._defaults, self._asked))
            for want in wants:
                calls.append(await self._admit(want, patience_s))
        except Refused as refusal:
            _return(calls)
            standing = self._standing(wants[len(calls)])
            return verdict.refused(refusal, standing, len(calls), count)
        except BadInput as error:
            _return(calls)
            LOG.warning("a rate limit descriptor cannot be used: %s", error)
            return verdict.unusable(error, len(calls) if len(wants) == count else len(wants), count)
        except BaseException:
            _return(calls)
            raise
        await self._hold(wants, calls)
        return verdict.admitted(self._standing(want) for want in wants)

    def _asked(self, call: str) -> Mapping[str, Any]:
        exchange = self._exchanges.get(call)
        return exchange.asked if exchange is not None else {}

    async def _admit(self, want: Wanted, patience_s: float | None) -> Call:
        arguments: dict[str, Any] = {**want.arguments, "request_id": want.call}
        call = self._gateway.request(**arguments, timeout_s=patience_s)
        return await call.__aenter__()

    async def _hold(self, wants: Sequence[Wanted], calls: Sequence[Call]) -> None:
        for want, call in zip(wants, calls, strict=True):
            exchange = self._exchanges.get(want.call)
            if exchange is not None:
                exchange.hold([call])
            else:
                # Nobody will say what it used: a marked estimate.
                await call.__aexit__(None, None, None)

    def _standing(self, want: Wanted) -> Standing:
        said = want.arguments
        return self._gateway.standing(said["pool"], said["tenant"], said.get("user", ""))


def _return(calls: Sequence[Call]) -> None:
    """Another descriptor was refused: these use nothing."""
    for call in calls:
        call.cancel("another_limit")
