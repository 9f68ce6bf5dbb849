"""A gateway process of the quota runs: it offers its load, and says what was admitted.

It prints its id when it obeys a decision, works until its standard input ends, and then prints a
line an admission and a refusal, whichever window they fell in.
"""

import asyncio
import json
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

from tests.broker import quota_terms
from tests.broker.quota_terms import CLASSES_OF, HOLD_S, LARGEST, LOADS, OVER, POOL
from tokenweir.gateway import Gateway, Refused

TICK_S = 0.02
MOST_BEHIND_S = 1.0  # of load that a slow machine makes up for


@dataclass
class Tally:
    """What happened here: [tenant, window, Unix ms, tokens used, excess open]."""

    admitted: list[list[object]] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    excess: Counter[tuple[str, str]] = field(default_factory=Counter)  # of what runs, by window


class Load:
    """One tenant's requests at this gateway."""

    def __init__(self, gateway: Gateway, place: int, tenant: str, tally: Tally) -> None:
        self._gateway, self._place = gateway, place
        self._tenant, self._tally = tenant, tally
        self._draw = random.Random(f"{tenant}/{place}")
        self._largest = LARGEST if tenant in LOADS else LARGEST // 4
        self._running: set[asyncio.Task[None]] = set()

    async def offer(self, stop: asyncio.Event) -> None:
        """Ask at the rate of the moment, whatever the answers are."""
        due, then_s = 0.0, time.time()
        while not stop.is_set():
            await asyncio.sleep(TICK_S)
            now_s = time.time()
            rate = quota_terms.wanted(self._tenant, self._place, int(now_s * 1000))
            due = min(due + rate * (now_s - then_s), rate * MOST_BEHIND_S)
            then_s = now_s
            while due > 0:
                due -= self._ask()
        await asyncio.gather(*self._running)

    def _ask(self) -> int:
        estimate = self._draw.randrange(self._largest // 4, self._largest)
        used = int(estimate * self._draw.uniform(0.7, OVER))
        task = asyncio.create_task(self._one(estimate, used, self._draw.uniform(0.005, HOLD_S)))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return estimate

    async def _one(self, estimate: int, used: int, hold_s: float) -> None:
        tally, tenant = self._tally, self._tenant
        request = self._gateway.request(tenant=tenant, pool=POOL, estimate=estimate, timeout_s=0)
        try:
            async with request as call:
                window = call.windows[0].window_id if call.windows else ""
                tally.excess[tenant, window] += max(used - estimate, 0)
                now_ms, excess = int(time.time() * 1000), tally.excess[tenant, window]
                tally.admitted.append([tenant, window, now_ms, used, excess])
                await asyncio.sleep(hold_s)
                call.settle(uncached=used, out=0)
                tally.excess[tenant, window] -= max(used - estimate, 0)
        except Refused as refused:
            tally.refused[f"{tenant} {refused.reason}"] += 1


async def main(place: int, brokers: str, prefix: str) -> None:
    tally, stop = Tally(), asyncio.Event()
    gateway = Gateway(brokers=brokers, name=f"edge-{place}", pools=[POOL], prefix=prefix)
    async with gateway:
        if not await gateway.ready(60):
            raise SystemExit(f"gateway {place}: {gateway.stats(POOL).state}")
        print(gateway.id, flush=True)
        async with asyncio.TaskGroup() as group:
            for tenant in (*LOADS, *CLASSES_OF):
                group.create_task(Load(gateway, place, tenant, tally).offer(stop))
            await asyncio.to_thread(sys.stdin.read)
            stop.set()
    lost = gateway.stats(POOL).lost_reports
    print(json.dumps({"admitted": tally.admitted, "refused": tally.refused, "lost": lost}))


if __name__ == "__main__":
    number, address, topics = sys.argv[1:]
    asyncio.run(main(int(number), address, topics))
