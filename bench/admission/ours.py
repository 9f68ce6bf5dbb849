"""Our lanes: the SDK as a gateway calls it, and its core as a simulation does; both without Kafka.

Every tenant has a lease. Cutting reports, which a gateway does between requests, is timed apart.
"""

import asyncio
import time
from array import array
from collections.abc import Iterator, Sequence

from bench.admission.leases import POOL, lease
from bench.admission.orders import Figures, Order, figures, timed
from tokenweir.gateway import Gateway, ledger
from tokenweir.gateway.monotonic import boot_ms
from tokenweir.gateway.pool import PoolGate
from tokenweir.gateway.request import Request

CUT_AT = 2500  # requests between two reports: half a second at 5 000 requests/s


class Sdk:
    """`async with gateway.request(…) as call: call.settle(…)`."""

    def __init__(self) -> None:
        self._gateway = Gateway(brokers="127.0.0.1:9", name="bench", pools=[POOL])
        self._gate = self._gateway._lanes[POOL].gate
        lease(self._gate, boot_ms())

    def turn(self, batch: Sequence[Order]) -> Figures:
        """Admit and settle each of them."""
        return asyncio.run(self._turn(batch))

    async def _turn(self, batch: Sequence[Order]) -> Figures:
        taken, aside_ns = array("q"), 0
        read = time.perf_counter_ns
        for some in _parts(batch):
            for order in some:
                began = read()
                await self._one(order)
                taken.append(read() - began)
            aside_ns += _cut(self._gate)
        return figures(taken, aside_ns)

    async def _one(self, order: Order) -> None:
        request = self._gateway.request(tenant=order.tenant, pool=POOL, estimate=order.estimate)
        async with request as call:
            call.settle(uncached=order.used, out=0)


class Core:
    """The same without the shell: `gate.ask` and `ledger.settle`, the clock read for each."""

    def __init__(self) -> None:
        self._gate = PoolGate(POOL, "bench")
        lease(self._gate, boot_ms())

    def turn(self, batch: Sequence[Order]) -> Figures:
        """Admit and settle each of them."""
        taken, aside_ns = array("q"), 0
        for some in _parts(batch):
            taken += timed(self._one, some)
            aside_ns += _cut(self._gate)
        return figures(taken, aside_ns)

    def _one(self, order: Order) -> None:
        request = Request(order.tenant, "", order.estimate)
        self._gate.ask(request, boot_ms())
        ledger.settle(self._gate, request, boot_ms(), order.used, 0, 0)


def _parts(batch: Sequence[Order]) -> Iterator[Sequence[Order]]:
    return (batch[at : at + CUT_AT] for at in range(0, len(batch), CUT_AT))


def _cut(gate: PoolGate) -> int:
    """Cut a report of what has happened, as it is sent; how long that took, in ns."""
    began = time.perf_counter_ns()
    for cut in gate.cut(boot_ms()):
        cut.aged(cut.cut_ms)
    return time.perf_counter_ns() - began
