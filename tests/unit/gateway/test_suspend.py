"""A machine that sleeps, and gates that are cut off for long, on clocks that are passed in."""

import time

import pytest

from tests.unit.gateway.made import (
    EPOCH_MS,
    POOL,
    admitted,
    ask,
    decision,
    give,
    leases,
    obeying,
    reason,
    roster,
    settle,
)
from tokenweir.gateway import monotonic
from tokenweir.gateway.monotonic import boot_ms
from tokenweir.gateway.pool import PoolGate

MINUTE_MS = 60_000
ASLEEP_MS = 10 * MINUTE_MS

#  own time   0 ── lease ── 15 000 ── floor ── 600 000 ── ended
#             awake ─ 1 000 ┆    asleep     ┆ 601 000 ─ awake


def test_after_ten_minutes_asleep_leases_and_floors_have_ended() -> None:
    gate = obeying(("ela", 100, 100, 10), pot=(100, 100))
    assert admitted(gate, 1000, "ela", 10) == 10
    awake_ms = 1000 + ASLEEP_MS
    assert admitted(gate, awake_ms, "ela", 10) == 0
    assert reason(ask(gate, awake_ms, "ela")) == "silent"
    assert gate.leases.phase == "ended"
    assert gate.leases.pot.level == 0


def test_a_sleep_that_the_floor_outlives_leaves_one_interval_of_the_floor() -> None:
    gate = obeying(("ela", 100, 100, 10))
    assert admitted(gate, 1000, "ela", 10) == 10
    assert admitted(gate, 9 * MINUTE_MS, "ela", 10) == 1
    assert gate.leases.phase == "floor"


def test_the_first_lease_after_a_sleep_mints_no_burst() -> None:
    gate = obeying(("ela", 100, 100, 10))
    awake_ms = 1000 + ASLEEP_MS
    give(gate, awake_ms, ("ela", 100, 100, 10))
    assert admitted(gate, awake_ms, "ela", 10) == 0
    assert admitted(gate, awake_ms + 500, "ela", 10) == 5


def test_a_lease_that_was_renewed_before_the_sleep_is_capped_by_its_burst() -> None:
    gate = obeying(("ela", 100, 100, 10), expires_ms=20 * MINUTE_MS, floor_expires_ms=10**9)
    assert admitted(gate, 1000 + ASLEEP_MS, "ela", 10) == 10


def test_what_was_running_and_waiting_when_it_fell_asleep_ends() -> None:
    gate = obeying(("ela", 100, 100, 10), ("gua", 10, 10, 0))
    running = ask(gate, 1000, "ela", 10)
    ask(gate, 1000, "gua", 50)
    waiting = ask(gate, 1000, "gua", 50)
    assert waiting.state == "waiting"
    awake_ms = 1000 + ASLEEP_MS
    assert gate.serve(awake_ms) == [waiting]
    assert running in gate.expire(awake_ms)
    (cut,) = gate.cut(awake_ms)
    assert sum(cut.report.totals.in_flight) == 0


def test_an_acknowledgement_that_slept_does_not_stop_the_pool_for_as_long() -> None:
    """A report was on its way when the machine fell asleep, and was appended ten minutes later."""
    gate = obeying(("ela", 100, 100, 10))
    awake_ms = 1000 + ASLEEP_MS
    gate.acknowledged(EPOCH_MS + awake_ms, 1000, awake_ms)
    give(gate, awake_ms, ("ela", 100, 100, 10))
    assert gate.leases.phase == "lease"
    assert admitted(gate, awake_ms + 1000, "ela", 10) == 10


def test_our_clock_counts_the_time_asleep_and_no_step_of_the_wall(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if hasattr(time, "CLOCK_BOOTTIME"):
        assert monotonic._CLOCK == time.CLOCK_BOOTTIME
    before = boot_ms()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert before <= boot_ms() < before + 60_000


QUOTA = 100_000  # tokens a minute, over four gateways


def test_four_gates_that_are_cut_off_spend_no_more_than_the_quota() -> None:
    """Each has its ceiling of this window and of the next, and no more comes."""
    gates = [PoolGate(POOL, f"edge-{place}") for place in range(4)]
    ceilings = [
        ("ela", "", f"w{number}", number * MINUTE_MS, (number + 1) * MINUTE_MS, QUOTA // 4)
        for number in (0, 1)
    ]
    for gate in gates:
        gate.acknowledged(EPOCH_MS, 0, 0)
        gate.hear(roster({"ela": "allow"}), 0)
        lease = leases(gate.gateway, ("ela", 10**6, 10**6, 0), ceilings=ceilings)
        gate.hear(lease, 0)
        gate.hear(decision(), 0)
    spent = [0, 0, 0]
    for now_ms in range(0, 3 * MINUTE_MS, 500):
        for gate in gates:
            for _ in range(5):
                request = ask(gate, now_ms, "ela", 1000)
                if request.state == "admitted":
                    settle(gate, request, now_ms, 1000)
                    spent[now_ms // MINUTE_MS] += 1000
    # `allow` admits without a lease, but never above a quota; of the third window nothing is known.
    assert spent == [QUOTA, QUOTA, 0]
