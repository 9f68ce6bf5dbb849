"""The shell for threads without Kafka: its own loop runs, and the core hears what the test says."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Thread
from time import monotonic, sleep

import pytest

from tests.unit.gateway.made import EPOCH_MS, POOL, Row, barred, class_states, give
from tokenweir.errors import BadInput
from tokenweir.gateway import AlreadyEnded, Refused
from tokenweir.gateway.monotonic import boot_ms
from tokenweir.gateway.shared import SharedLane
from tokenweir.gateway.sync_call import SyncCall
from tokenweir.gateway.threads import SyncGateway

STANDS_STILL_MS = 5_000
DEADLINE_S = 60  # of what comes at once, on any machine


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Iterator[SyncGateway]:
    monkeypatch.setattr("tokenweir.gateway.gateway.CLOSING_S", 0.1)
    with SyncGateway(brokers="127.0.0.1:1", name="edge", pools=[POOL]) as gateway:
        yield gateway


def lane_of(gateway: SyncGateway) -> SharedLane:
    return gateway._gateway.lane(POOL)


def lease(gateway: SyncGateway, *rows: Row, now_ms: int | None = None, wait_ms: int = 0) -> None:
    """Leases from a second ago on, so that their buckets are full."""
    gate, now_ms = lane_of(gateway).gate, (now_ms or boot_ms()) - 1000
    with lane_of(gateway).lock:
        gate.acknowledged(EPOCH_MS + now_ms, now_ms, now_ms)
        waits = {"classes": class_states(elastic={"longest_wait_ms": wait_ms})}
        give(gate, now_ms, *rows, changes=waits, expires_ms=now_ms + 10**9)


def until(what: str, holds: object) -> None:
    """Wait for a condition."""
    deadline = monotonic() + DEADLINE_S
    while not holds():  # type: ignore[operator]
        assert monotonic() < deadline, what
        sleep(0.001)


def test_100_requests_of_1000_from_32_threads_against_10_000_admit_exactly_10() -> None:
    gateway = SyncGateway(
        brokers="127.0.0.1:1", name="edge", pools=[POOL], clock=lambda: STANDS_STILL_MS
    )
    lease(gateway, ("ela", 10_000, 10_000, 0), now_ms=STANDS_STILL_MS)
    together = Barrier(32)

    def one(number: int) -> str:
        if number < 32:
            together.wait()
        try:
            with gateway.request(tenant="ela", pool=POOL, estimate=1000) as call:
                call.settle(uncached=1000, out=0)
        except Refused as refused:
            return refused.reason
        return "done"

    with ThreadPoolExecutor(32) as threads:
        ends = list(threads.map(one, range(100)))
    assert (ends.count("done"), ends.count("tokens")) == (10, 90)
    assert gateway.stats(POOL).tenants["ela"].admitted == 10


def test_nothing_is_lost_or_doubled_by_32_threads_that_ask_settle_and_leave(
    gateway: SyncGateway,
) -> None:
    lease(gateway, ("ela", 10**6, 10**6, 0), wait_ms=2000)

    def many(number: int) -> tuple[int, int]:
        done = refused = 0
        for turn in range(60):
            try:
                with gateway.request(
                    tenant="ela", pool=POOL, estimate=2000, user=str(number)
                ) as call:
                    if turn % 3 == 0:
                        call.cancel()
                    elif turn % 3 == 1:
                        call.settle(uncached=7, out=0)
                    done += 1
            except Refused:
                refused += 1
        return done, refused

    with ThreadPoolExecutor(32) as threads:
        counts = list(threads.map(many, range(32)))
    stats = gateway.stats(POOL)
    assert sum(done for done, _ in counts) == stats.tenants["ela"].admitted
    assert sum(done + refused for done, refused in counts) == 32 * 60
    assert (stats.in_flight, stats.waiting) == (0, 0)


def test_a_thread_that_waits_is_woken_when_tokens_are_there(gateway: SyncGateway) -> None:
    lease(gateway, ("ela", 1000, 1000, 0), wait_ms=10**6)
    began = monotonic()
    with gateway.request(tenant="ela", pool=POOL, estimate=1100) as first:
        first.settle(uncached=1100, out=0)
    with gateway.request(tenant="ela", pool=POOL, estimate=1) as call:
        call.settle(uncached=1, out=0)
    # 100 tokens were owed; it would have waited for a quarter of an hour.
    assert 0.09 <= monotonic() - began < DEADLINE_S
    assert call.status == "done"


def test_a_settled_request_wakes_the_thread_that_waits(gateway: SyncGateway) -> None:
    lease(gateway, ("gua", 1, 1000, 0))
    lane_of(gateway).gate.subjects["gua"].bucket.level = 1_000_000
    with gateway.request(tenant="gua", pool=POOL, estimate=3000) as first:
        states = []

        def wait() -> None:
            with gateway.request(tenant="gua", pool=POOL, estimate=1) as call:
                states.append(call.state)

        thread = Thread(target=wait)
        thread.start()
        until("it waits", lambda: gateway.stats(POOL).waiting == 1)
        first.settle(uncached=1, out=0)
        thread.join(DEADLINE_S)
    assert states == ["admitted"]


def test_a_wait_ends_at_its_deadline(gateway: SyncGateway) -> None:
    lease(gateway, ("ela", 1, 1000, 0), wait_ms=10**6)
    lane_of(gateway).gate.subjects["ela"].bucket.level = -(10**9)
    began = monotonic()
    for timeout_s, deadline in ((0.1, None), (None, began + 0.2)):
        call = gateway.request(
            tenant="ela", pool=POOL, estimate=1, timeout_s=timeout_s, deadline=deadline
        )
        with pytest.raises(Refused, match="tokens"):
            call.__enter__()
    assert 0.15 < monotonic() - began < DEADLINE_S
    assert gateway.stats(POOL).waiting == 0


def test_closing_tells_the_threads_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tokenweir.gateway.gateway.CLOSING_S", 0.1)
    gateway = SyncGateway(brokers="127.0.0.1:1", name="edge", pools=[POOL])
    gateway.start()
    lease(gateway, ("ela", 1, 1000, 0), wait_ms=60_000)
    lane_of(gateway).gate.subjects["ela"].bucket.level = -(10**9)
    told = []

    def wait() -> None:
        try:
            gateway.request(tenant="ela", pool=POOL, estimate=1).__enter__()
        except Refused as refused:
            told.append(refused.reason)

    thread = Thread(target=wait)
    thread.start()
    until("it waits", lambda: gateway.stats(POOL).waiting == 1)
    gateway.stop()
    thread.join(DEADLINE_S)
    assert told == ["closing"]


def test_an_exception_marks_an_error_and_settling_twice_is_one(gateway: SyncGateway) -> None:
    lease(gateway, ("ela", 1000, 1000, 0))
    with (
        pytest.raises(ValueError, match="backend"),
        gateway.request(tenant="ela", pool=POOL, estimate=70) as call,
    ):
        raise ValueError("backend")
    with pytest.raises(AlreadyEnded):
        call.settle(uncached=1, out=1)
    with pytest.raises(BadInput, match="estimate is -1"):
        gateway.request(tenant="ela", pool=POOL, estimate=-1)


def test_revoked_work_is_suspended_and_goes_on_by_itself(gateway: SyncGateway) -> None:
    lease(gateway, ("pre", 1000, 1000, 0))
    stopped: list[SyncCall] = []

    def suspend(call: SyncCall) -> str:
        stopped.append(call)
        return "suspend"

    with gateway.request(
        tenant="pre",
        pool=POOL,
        estimate=500,
        on_revoke=suspend,  # type: ignore[arg-type]
    ) as call:
        call.produced(100)
        lane, now_ms = lane_of(gateway), boot_ms()
        lane.loop.call_soon_threadsafe(  # type: ignore[union-attr]
            lane.hear, barred(now_ms, ("pre", "revoked", now_ms + 200))
        )
        until("it is suspended", lambda: call.suspended or boot_ms() >= now_ms + 200)
        assert not call.resumed(timeout_s=0.01) or boot_ms() >= now_ms + 200
        assert call.resumed(timeout_s=DEADLINE_S)
        assert boot_ms() >= now_ms + 200
        call.settle(uncached=0, out=500)
    assert stopped == [call]
    assert gateway.stats(POOL).tenants["pre"].spent == 500


def test_a_thread_of_a_guaranteed_tenant_waits_on_while_decisions_are_late(
    gateway: SyncGateway,
) -> None:
    """Three intervals of 100 ms are over long before the decision comes."""
    lane, now_ms = lane_of(gateway), boot_ms()
    fast = {"interval_ms": 100}
    with lane.lock:
        lane.gate.acknowledged(EPOCH_MS + now_ms, now_ms, now_ms)
        give(lane.gate, now_ms, changes=fast)

    def one() -> int:
        asked_ms = boot_ms()
        with gateway.request(tenant="gua", pool=POOL, estimate=1) as call:
            waited_ms = boot_ms() - asked_ms  # its own `wait_ms` is 0 once a report has told it
            call.settle(uncached=1, out=0)
        return waited_ms

    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(one)
        until("it waits", lambda: gateway.stats(POOL).waiting == 1)
        began_ms = boot_ms()
        until("its first deadline and more", lambda: boot_ms() - began_ms > 1400)
        with lane.lock:
            give(lane.gate, boot_ms(), ("gua", 1000, 1000, 1000), changes=fast)
            lane.arm()
        assert waiting.result(DEADLINE_S) > 1400
