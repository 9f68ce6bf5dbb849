"""Gateways that report a little, each half second or as fast as they can."""

import asyncio
from dataclasses import dataclass, field
from random import Random

from tests.broker.deployment import Deployment
from tests.pools import report, spec, tenant


@dataclass(slots=True)
class Load:
    """Gateways of some pools, with reports in sequence."""

    deployment: Deployment
    pools: tuple[str, ...]
    gateways: tuple[str, ...] = ("gw-a", "gw-b")
    sequences: dict[tuple[str, str], int] = field(default_factory=dict)
    tokens: dict[str, int] = field(default_factory=dict)
    random: Random = field(default_factory=lambda: Random(1))

    async def apply(self) -> None:
        """Give each pool its spec: ten thousand tokens a second, three tenants."""
        for pool in self.pools:
            tenants = [
                tenant("gold", "guaranteed", 5_000),
                tenant("iron", "elastic", 1_000),
                tenant("tin", "spot"),
            ]
            await self.deployment.send(spec(*tenants, pool=pool, interval_ms=500))

    async def round(self) -> None:
        """One report of each gateway for each pool."""
        for pool in self.pools:
            for gateway in self.gateways:
                await self.deployment.send(self._report(pool, gateway))

    async def rounds(self, count: int, pause_s: float = 0.02) -> None:
        """Several rounds, a moment apart."""
        for _ in range(count):
            await self.round()
            await asyncio.sleep(pause_s)

    def _report(self, pool: str, gateway: str) -> object:
        number = self.sequences.get((pool, gateway), 0) + 1
        self.sequences[pool, gateway] = number
        used = {name: self.random.randrange(500) for name in ("gold", "iron", "tin")}
        self.tokens[pool] = self.tokens.get(pool, 0) + sum(used.values())
        return report(gateway, number, used, pool=pool)
