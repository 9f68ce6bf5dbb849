"""Two pools share one quota on a real broker: real workers, and a gateway that serves both."""

import asyncio
import json
import os
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from streams.config import CHECKOUT
from streams.parts import environment
from streams.supervise import Child
from tests.broker.deployment import DEADLINE_S, REAL_WORKER, Deployment
from tests.pools import spec, tenant
from tokenweir.cli.get import quotas
from tokenweir.cli.settings import Settings
from tokenweir.gateway import Gateway, Refused
from tokenweir.records.journal import AuditEntry, DecisionEntry
from tokenweir.records.spec import PoolSpec, Quota
from tokenweir.records.usage import QuotaCeiling
from tokenweir.spec.zones import zone_of
from tokenweir.wire import decode

pytestmark = pytest.mark.broker

POOLS = ("chat", "code")
QUOTA, REQUEST = 30_000, 200
MOST = QUOTA * 85 // 100  # of it can be spent, wherever the rest lies
SPREAD = {"chat": 3, "code": 1}  # requests at a time


def rules(pool: str) -> PoolSpec:
    quota = Quota("month", "Europe/Berlin", QUOTA, 0, False, across=True)
    return spec(
        tenant("acme", "elastic", 2_000, quotas=[quota]),
        pool=pool,
        interval_ms=500,
        zones=(zone_of("Europe/Berlin"),),
    )


class Sharing:
    """The worker that shares quotas between pools, as a process."""

    def __init__(self, deployment: Deployment) -> None:
        self.child = Child(
            "quotas-0",
            [sys.executable, "-m", "streams", "quotas"],
            log=deployment.config.data / "quotas.log",
            env=environment(os.environ, deployment.config, "0"),
            cwd=CHECKOUT,
        )


async def spend(gateway: Gateway, admitted: Counter[str], until: int) -> None:
    """Ask in both pools until so much was admitted."""
    end_s = time.monotonic() + DEADLINE_S
    while sum(admitted.values()) < until:
        assert time.monotonic() < end_s, f"admitted {dict(admitted)}, not {until}"
        await ask(gateway, admitted)


async def ask(gateway: Gateway, admitted: Counter[str]) -> None:
    """A few requests in both pools, and a tenth of a second."""
    for pool, count in SPREAD.items():
        for _ in range(count):
            request = gateway.request(tenant="acme", pool=pool, estimate=REQUEST, timeout_s=0)
            with suppress(Refused):
                async with request as call:
                    call.settle(uncached=REQUEST, out=0)
                admitted[pool] += REQUEST
    await asyncio.sleep(0.1)


async def ceilings(deployment: Deployment) -> Counter[str]:
    """The newest ceiling of each pool, as the usage topic has it."""
    newest: Counter[str] = Counter()
    for record in await deployment.read(deployment.topics.usage):
        found = decode(record.value)
        if isinstance(found, QuotaCeiling):
            newest[found.pool] = max(newest[found.pool], found.tokens)
    return newest


async def test_two_pools_share_one_quota(
    brokers: str, prefix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deployment = Deployment(brokers, prefix, tmp_path, worker=REAL_WORKER)
    sharing, admitted = Sharing(deployment), Counter[str]()
    try:
        await deployment.start("0")
        for pool in POOLS:
            await deployment.send(rules(pool))
        sharing.child.start()
        gateway = Gateway(brokers=brokers, name="edge", pools=[*POOLS], prefix=prefix)
        async with gateway:
            assert await gateway.ready(DEADLINE_S)
            await spend(gateway, admitted, QUOTA // 3)
            sharing.child.kill()  # its state is in the tables and in what pools say
            sharing.child.start()
            await spend(gateway, admitted, MOST)
            for _ in range(50):  # what nobody has left is not given twice
                await ask(gateway, admitted)
        given = await ceilings(deployment)
        bodies = [entry.body for entry in await deployment.journal()]
        settings = Settings(brokers=brokers, topic_prefix=prefix)
        await asyncio.to_thread(quotas.run, settings, "chat", "json")
        shown = json.loads(capsys.readouterr().out)
    finally:
        sharing.child.kill()
        await deployment.stop()
    print(f"admitted {dict(admitted)} of {QUOTA}, ceilings {dict(given)}")
    assert sum(admitted.values()) <= QUOTA
    assert sum(given.values()) <= QUOTA
    assert sum(admitted.values()) >= MOST
    assert all(admitted[pool] > 0 for pool in POOLS)
    assert [(row["tenant"], row["quota_tokens"]) for row in shown] == [("acme", given["chat"])]
    assert 0 < shown[0]["spent_tokens"] <= admitted["chat"]  # the last reports came after it
    windows = {
        window
        for body in bodies
        if isinstance(body, DecisionEntry)
        for window in body.quotas.window_id
    }
    assert {window.partition("/")[0] for window in windows} == {"month"}
    assert not [body for body in bodies if isinstance(body, AuditEntry) and body.kind == "quota"]
