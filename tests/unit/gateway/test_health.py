"""Green, red, and why; over HTTP from a thread of its own."""

import asyncio
import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.loopback import get
from tests.unit.gateway.made import EPOCH_MS, POOL, give
from tokenweir.gateway import Gateway
from tokenweir.gateway.health import Limits, health_of
from tokenweir.gateway.status import StatusServer


class Clock:
    now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def gateway(clock: Clock) -> Gateway:
    return Gateway(brokers="nowhere:1", name="edge", pools=[POOL], clock=clock)


def beat(gateway: Gateway, sent: bool = True) -> None:
    """A report is due, and appended unless Kafka is away."""
    outlet = gateway._outlets[POOL]
    now_ms = gateway._clock()
    outlet.cut()
    while sent and len(outlet.spool):
        outlet.spool.acknowledged()
        outlet.gate.acknowledged(EPOCH_MS + now_ms, now_ms, now_ms)


def decide(gateway: Gateway, **life: Any) -> None:
    give(gateway._lanes[POOL].gate, gateway._clock(), ("ela", 100, 100, 10), **life)


def problems(gateway: Gateway) -> str:
    return "\n".join(health_of(gateway).problems)


def test_a_gateway_that_obeys_and_reports_is_well(gateway: Gateway, clock: Clock) -> None:
    for clock.now_ms in range(0, 5_000, 500):
        beat(gateway)
        decide(gateway)
        assert health_of(gateway).ok


def test_with_an_empty_topic_it_is_red_and_says_what_is_missing(
    gateway: Gateway,
) -> None:
    assert problems(gateway) == (
        "pool chat: nothing is obeyed yet: no report acknowledged yet: nothing is obeyed; not"
        " connected to nowhere:1 yet"
    )
    beat(gateway)
    assert "no decision yet: is the control plane running" in problems(gateway)


def test_a_silent_control_topic_is_red_before_the_leases_end(
    gateway: Gateway, clock: Clock
) -> None:
    beat(gateway)
    decide(gateway)
    clock.now_ms = 10_000
    beat(gateway)
    assert health_of(gateway).ok
    clock.now_ms = 10_500
    beat(gateway)
    assert "no decision for 10.5 s, lease is in force" in problems(gateway)
    clock.now_ms = 15_500
    beat(gateway)
    assert "no decision for 15.5 s, floor is in force" in problems(gateway)
    decide(gateway)
    assert health_of(gateway).ok


def test_a_report_that_cannot_be_sent_is_red_until_it_is(gateway: Gateway, clock: Clock) -> None:
    beat(gateway)
    for clock.now_ms in range(500, 11_000, 500):
        beat(gateway, sent=False)
        decide(gateway)
    assert health_of(gateway).ok
    clock.now_ms = 10_501
    assert problems(gateway).startswith("pool chat: 2 reports wait, the oldest 10.0 s: not conn")
    beat(gateway)
    assert health_of(gateway).ok


def test_what_is_lost_is_red_for_a_minute(clock: Clock) -> None:
    gateway = Gateway(brokers="nowhere:1", name="edge", pools=[POOL], clock=clock, spool_bytes=0)
    for clock.now_ms in range(0, 62_000, 500):
        gateway._lanes[POOL].gate.acknowledged(EPOCH_MS + clock.now_ms, clock.now_ms, clock.now_ms)
        decide(gateway)
        if clock.now_ms == 0:
            beat(gateway)
        assert ("usage is lost: 1 reports with 0 rows" in problems(gateway)) == (
            clock.now_ms < 60_000
        )
        gateway._outlets[POOL].beat_ms = clock.now_ms


async def test_a_disk_that_takes_nothing_is_red(clock: Clock, tmp_path: Path) -> None:
    gateway = Gateway(
        brokers="nowhere:1", name="edge", pools=[POOL], clock=clock, spool_path=tmp_path
    )
    assert gateway._folder is not None
    gateway._folder.database.execute("PRAGMA query_only = 1")
    beat(gateway)
    decide(gateway)
    assert "reports wait in memory" in problems(gateway)
    gateway._folder.close()


def test_limits_are_a_value(gateway: Gateway, clock: Clock) -> None:
    beat(gateway)
    decide(gateway)
    clock.now_ms = 2_001
    beat(gateway)
    assert health_of(gateway).ok
    assert not health_of(gateway, Limits(silent_intervals=2)).ok


@pytest.fixture
def port(gateway: Gateway) -> Iterator[int]:
    with StatusServer(gateway, port=0) as server:
        yield server.port


def test_healthz_answers_503_with_the_problems_and_200_without(gateway: Gateway, port: int) -> None:
    status, body = get(port, "/healthz")
    assert (status, json.loads(body)["ok"]) == (503, False)
    assert "nothing is obeyed yet" in json.loads(body)["problems"][0]
    beat(gateway)
    decide(gateway)
    status, body = get(port, "/healthz?probe=1")
    assert (status, json.loads(body)) == (200, {"ok": True, "gateway": gateway.id, "problems": []})


def test_another_path_says_which_there_are(port: int) -> None:
    assert get(port, "/") == (404, "/healthz, /metrics")


async def test_it_answers_in_red_while_the_event_loop_is_blocked() -> None:
    gateway = Gateway(brokers="nowhere:1", name="edge", pools=[POOL])
    beating = asyncio.create_task(gateway._outlets[POOL].beat(lambda: None))
    with (
        StatusServer(gateway, port=0, limits=Limits(blocked_ms=0)) as server,
        ThreadPoolExecutor(1) as threads,
    ):
        await asyncio.sleep(0)  # the first beat
        # The loop is blocked until the answer is there.
        assert threads.submit(_red_when_blocked, server.port).result() >= 2.0
    beating.cancel()


def _red_when_blocked(port: int) -> float:
    """For how many seconds the loop had not run when it was red for that."""
    deadline_s = time.monotonic() + 60
    while time.monotonic() < deadline_s:
        said = re.search(r"its event loop has not run for (\S+) s", get(port, "/healthz")[1])
        if said:
            return float(said[1])
        time.sleep(0.05)
    return 0.0
