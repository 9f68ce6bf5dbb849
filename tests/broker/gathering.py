"""Events workers as processes, and what they report looked at from outside."""

import asyncio
import json
import os
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from streams.config import CHECKOUT
from streams.parts import environment
from streams.supervise import Child
from tests.broker.deployment import Deployment, deployed, until
from tokenweir.records.usage import UsageReport
from tokenweir.topics import partition_of
from tokenweir.wire import decode

Sums = Counter[tuple[str, str]]  # tokens and requests by tenant
COUNTED = ("requests", "errors", "tokens_uncached", "tokens_cached", "tokens_out")


@dataclass(frozen=True, slots=True)
class Made:
    """One request, as an SDK would settle it and as events tell it."""

    id: str
    tenant: str
    uncached: int
    cached: int
    out: int
    error: bool
    parts: tuple[int, ...]  # output tokens when a report is due, if it streams

    def events(self, pool: str) -> list[dict[str, Any]]:
        """All events of the request, in their order."""
        common = {"pool": pool, "tenant": self.tenant, "request_id": self.id}
        told: list[dict[str, Any]] = [
            {"id": f"{self.id}-{out}", "status": "part", "usage": self.usage(out)}
            for out in self.parts
        ]
        last = {"id": f"{self.id}-end", "usage": self.usage(self.out), "error": self.error}
        return [{**common, **part} for part in (*told, last)]

    def usage(self, out: int) -> dict[str, Any]:
        details = {"cached_tokens": self.cached}
        prompt = self.uncached + self.cached
        return {
            "prompt_tokens": prompt,
            "completion_tokens": out,
            "total_tokens": prompt + out,
            "prompt_tokens_details": details,
        }


def made(count: int, seed: int, tenants: tuple[str, ...] = ("gold", "iron", "tin")) -> list[Made]:
    """Requests with a fixed seed; every fourth streams."""
    draw = Random(seed)
    return [
        Made(
            f"r{number}",
            draw.choice(tenants),
            draw.randrange(2_000),
            draw.choice((0, 0, draw.randrange(5_000))),
            900 + draw.randrange(100),
            draw.random() < 0.1,
            (100, 500) if number % 4 == 0 else (),
        )
        for number in range(count)
    ]


def sums_of(requests: Iterable[Made]) -> Sums:
    sums: Sums = Counter()
    for request in requests:
        values = (1, int(request.error), request.uncached, request.cached, request.out)
        for name, value in zip(COUNTED, values, strict=True):
            sums[request.tenant, name] += value
    return +sums


class Gatherers:
    """Events workers on a deployment's topics."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.workers: dict[str, Child] = {}
        self.ports: dict[str, int] = {}  # where a worker's metrics are

    def work(self, name: str = "0") -> Child:
        """Start a worker, or start it again."""
        config = self.deployment.config
        if name not in self.workers:
            self.ports[name] = free_port()
            self.workers[name] = Child(
                f"events-{name}",
                [sys.executable, "-m", "streams", "events", f"--metrics-port={self.ports[name]}"],
                log=config.data / f"events-{name}.log",
                env=environment(os.environ, config, name),
                cwd=CHECKOUT,
            )
        self.workers[name].start()
        return self.workers[name]

    async def send(
        self, content: object, key: bytes | None = b"any", partition: int | None = None
    ) -> int:
        """Produce an event, not waiting for the broker; bytes as they are. Its partition."""
        value = content if isinstance(content, bytes) else json.dumps(content).encode()
        if partition is None:
            partition = partition_of((key or b"").decode(), self.deployment.config.partitions)
        await self.deployment.producer.send(
            self.deployment.topics.events, value, key, partition=partition
        )
        return partition

    async def sums(self, pool: str) -> Sums:
        """What the reports of a pool add up to; a sequence counts once (R1)."""
        sums: Sums = Counter()
        last: Counter[str] = Counter()
        for record in await self.deployment.read(self.deployment.topics.usage):
            report = decode(record.value)
            if not isinstance(report, UsageReport) or report.pool != pool:
                continue
            if report.sequence <= last[report.gateway]:
                continue
            assert report.sequence == last[report.gateway] + 1
            last[report.gateway] = report.sequence
            add(sums, report)
        return +sums

    async def reported(self, pool: str, wanted: Sums) -> float:
        """Wait until the pool's reports add up to this, and never to more; how many seconds."""

        async def equal() -> bool:
            for worker in self.workers.values():
                assert worker.exit_code in (None, -9, -15), worker.tail()
            found = await self.sums(pool)
            assert not found - wanted, found - wanted
            return found == wanted

        return await until(equal, "all events in reports", pause_s=0.3)

    async def begun(self, pool: str, requests: int) -> None:
        """Wait until the pool's reports tell of so many requests."""

        async def enough() -> bool:
            found = await self.sums(pool)
            return sum(n for (_, name), n in found.items() if name == "requests") >= requests

        await until(enough, f"{requests} requests in reports")

    async def counts(self, name: str = "0") -> Counter[str]:
        """What became of the events of a worker's partitions, as its metrics say."""
        url = f"http://127.0.0.1:{self.ports[name]}/metrics"
        text = await asyncio.to_thread(lambda: urlopen(url, timeout=60).read().decode())
        counts: Counter[str] = Counter()
        for family in text_string_to_metric_families(text):
            for sample in family.samples if family.name == "tokenweir_events" else ():
                counts[sample.labels["outcome"]] += int(sample.value)
        return +counts

    def stop(self) -> None:
        for worker in self.workers.values():
            worker.kill()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def add(sums: Sums, report: UsageReport) -> None:
    totals = report.totals
    for name in COUNTED:
        for place, value in zip(totals.tenant, getattr(totals, name), strict=False):
            sums[totals.names[place], name] += value


@asynccontextmanager
async def gathering(
    brokers: str, prefix: str, data: Path, *workers: str, partitions: int = 4
) -> AsyncIterator[Gatherers]:
    """A deployment with one events worker, and these control workers."""
    async with deployed(brokers, prefix, data, *workers, partitions=partitions) as deployment:
        gatherers = Gatherers(deployment)
        try:
            gatherers.work()
            yield gatherers
        finally:
            gatherers.stop()
