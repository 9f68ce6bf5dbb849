"""Slots: the table, the core's small numbers, and the asyncio shell on a real event loop."""

import asyncio
from collections.abc import Callable
from itertools import product
from typing import Any, get_args

import pytest

from tests.unit.gateway.made import EPOCH_MS, POOL, class_states, give
from tokenweir.errors import BadInput
from tokenweir.gateway import Gateway, NoSlot, SlotLost, Slots
from tokenweir.gateway.inheritance import Holder
from tokenweir.gateway.rack import Rack
from tokenweir.gateway.slot import Want
from tokenweir.gateway.slot_states import TRANSITIONS, SlotEvent, SlotState, after


async def until(holds: Callable[[], bool]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - what it waits for has no event
            await asyncio.sleep(0.001)


def test_the_table_names_every_state_and_event_and_all_else_is_lost() -> None:
    assert {state for state, _ in TRANSITIONS} | {"gone"} == set(get_args(SlotState))
    assert {event for _, event in TRANSITIONS} == set(get_args(SlotEvent))
    for state, event in product(get_args(SlotState), get_args(SlotEvent)):
        if (state, event) not in TRANSITIONS:
            with pytest.raises(SlotLost):
                after(state, event)


def taken(rack: Rack, now_ms: int, holder: Holder | None = None) -> Want:
    want = Want(holder or Holder(2), now_ms + 1000)
    assert rack.ask(want, now_ms)
    for version in rack.to_open():
        rack.opened(version, None, now_ms)
    return want


def test_a_life_is_the_base_and_longer_by_the_load() -> None:
    rack = Rack(4, "v1", ready=3, base_ms=60_000)
    taken(rack, 0)
    assert (rack.in_use, rack.all, rack.life_ms) == (1, 4, 75_000)
    assert rack.turn(74_999) == []
    assert rack.lost == 0
    rack.turn(75_000)
    assert rack.lost == 1


def test_some_slots_are_opened_ahead_and_no_more_than_there_is_room_for() -> None:
    rack = Rack(3, "v1", ready=2)
    assert rack.to_open() == ["v1", "v1"]
    assert rack.to_open() == []
    for _ in range(2):
        rack.opened("v1", None, 0)
    for _ in range(3):
        taken(rack, 0)
    assert (rack.in_use, rack.idle()) == (3, 0)
    assert rack.to_open() == []


def test_a_slot_that_cannot_be_opened_is_wanted_again() -> None:
    rack = Rack(1, "v1", ready=1)
    assert rack.to_open() == ["v1"]
    rack.failed("v1")
    assert rack.to_open() == ["v1"]


def test_no_more_wait_than_may() -> None:
    rack = Rack(1, "v1", most_waiting=1)
    assert rack.ask(Want(Holder(2), 1000), 0)
    assert not rack.ask(Want(Holder(2), 1000), 0)


def test_the_highest_goes_first_and_then_who_asked_first() -> None:
    rack = Rack(1, "v1")
    first = taken(rack, 0)
    assert first.slot is not None
    low, high, later = (Want(Holder(priority), 9000) for priority in (1, 3, 3))
    for want in (low, high, later):
        rack.ask(want, 10)
    rack.give_back(first.slot, 20)
    assert (high.slot is not None, later.slot, low.slot) == (True, None, None)


def test_a_holder_inherits_and_hands_it_on_along_a_chain_and_gives_it_up() -> None:
    #  low holds a; middle waits for a and holds b; high waits for b
    a, b = Rack(1, "v1"), Rack(1, "v1")
    low, middle, high = Holder(1), Holder(2), Holder(3)
    first = taken(a, 0, low)
    taken(b, 0, middle)
    a.ask(Want(middle, 9000), 10)
    assert (low.priority, middle.priority) == (2, 2)
    heard: list[int] = []
    low.followers.append(heard.append)
    want = Want(high, 9000)
    b.ask(want, 20)
    assert (low.priority, middle.priority) == (3, 3)
    b.withdraw(want)
    assert (low.priority, middle.priority) == (2, 2)
    assert first.slot is not None
    a.give_back(first.slot, 30)
    assert low.priority == 1
    assert heard == [3, 2]


def test_a_deadlock_of_holders_ends_at_its_deadline() -> None:
    a, b = Rack(1, "v1"), Rack(1, "v1")
    one, other = Holder(1), Holder(3)
    taken(a, 0, one)
    taken(b, 0, other)
    want, late = Want(one, 100), Want(other, 200)
    b.ask(want, 10)
    a.ask(late, 10)
    assert one.priority == 3
    assert b.turn(100) == [want]


def test_notice_comes_at_half_of_the_bound_and_the_slot_goes_at_its_end() -> None:
    rack = Rack(1, "v1", inversion_ms=1000)
    held, high = taken(rack, 0, Holder(1)), Want(Holder(3), 9000)
    rack.ask(high, 100)
    assert rack.next_ms() == 600
    rack.turn(600)
    assert held.slot is not None
    assert held.slot.notice
    assert rack.next_ms() == 1100
    rack.turn(1100)
    for version in rack.to_open():
        rack.opened(version, None, 1100)
    assert (rack.preempted, high.slot is not None) == (1, True)
    with pytest.raises(SlotLost):
        rack.beat(held.slot, 1101)


def test_a_reload_drains_the_old_version_when_the_new_one_is_ready() -> None:
    rack = Rack(2, "v1", ready=1)
    old = taken(rack, 0)
    assert old.slot is not None
    rack.reload("v2")
    assert rack.to_open() == ["v2"]
    assert (rack.version, old.slot.state) == ("v1", "busy")  # not ready yet: the old one serves
    rack.opened("v2", None, 10)
    assert (rack.version, old.slot.state) == ("v2", "revoke")
    rack.beat(old.slot, 20)  # it may finish
    rack.give_back(old.slot, 30)
    assert old.slot in rack.to_close
    assert taken(rack, 40).slot is not None


def test_a_reload_to_a_third_version_forgets_the_second() -> None:
    rack = Rack(2, "v1", ready=1)
    taken(rack, 0)
    rack.reload("v2")
    rack.to_open()
    rack.reload("v3")
    assert rack.to_open() == ["v3"]
    rack.opened("v2", None, 10)
    assert rack.version == "v1"
    rack.opened("v3", None, 10)
    assert rack.version == "v3"


def test_fewer_slots_drain_the_lowest_and_newest() -> None:
    rack = Rack(3, "v1")
    high, low, newer = (
        taken(rack, at_ms, Holder(priority)) for at_ms, priority in ((0, 3), (1, 1), (2, 1))
    )
    rack.resize(2, 10)
    states = [want.slot.state for want in (high, low, newer) if want.slot is not None]
    assert states == ["busy", "busy", "revoke"]


class Backend:
    """Opens numbered connections."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.closed: list[Any] = []
        self.broken = False

    async def open(self, version: str) -> str:
        if self.broken:
            raise OSError("no route")
        self.opened.append(version)
        return f"{version} {len(self.opened)}"

    async def close(self, resource: Any) -> None:
        self.closed.append(resource)


async def test_a_slot_is_taken_given_back_and_used_again() -> None:
    backend = Backend()
    async with Slots(1, open=backend.open, close=backend.close, version="m") as slots:
        for _ in range(3):
            async with slots.take() as slot:
                assert slot.resource == "m 1"
                assert slots.stats().in_use == 1
        assert slots.stats().idle == 1
    assert backend.closed == ["m 1"]


async def test_who_waits_too_long_is_told() -> None:
    async with Slots(1) as slots, slots.take():
        with pytest.raises(NoSlot, match="none of 1 slots was free"):
            await slots.take(timeout_s=0.05).__aenter__()
        assert slots.stats().waiting == 0


async def test_who_is_cancelled_while_waiting_leaves_nothing() -> None:
    async with Slots(1) as slots:
        async with slots.take():
            waiting = asyncio.create_task(slots.take().__aenter__())
            await until(lambda: slots.stats().waiting == 1)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        assert (slots.stats().waiting, slots.stats().in_use) == (0, 0)


async def test_closing_refuses_who_waits() -> None:
    async with Slots(1) as slots:
        first = slots.take()
        await first.__aenter__()
        waiting = asyncio.create_task(slots.take().__aenter__())
        await until(lambda: slots.stats().waiting == 1)
    with pytest.raises(NoSlot):
        await waiting


async def test_ready_slots_are_opened_before_anybody_asks() -> None:
    backend = Backend()
    async with Slots(4, open=backend.open, ready=2, version="m") as slots:
        await until(lambda: slots.stats().idle == 2)
        async with slots.take():
            await until(lambda: slots.stats().idle == 2)
    assert backend.opened == ["m"] * 3


async def test_a_backend_that_is_away_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tokenweir.gateway.slots.RETRY_S", 0.01)
    backend = Backend()
    backend.broken = True
    async with Slots(1, open=backend.open) as slots:
        waiting = asyncio.create_task(slots.take().__aenter__())
        await asyncio.sleep(0.05)
        backend.broken = False
        await asyncio.wait_for(waiting, 60)


async def test_a_hold_without_heartbeats_is_lost_and_one_with_them_is_not() -> None:
    async with Slots(2, base_timeout_s=0.1) as slots:
        async with slots.take():
            silent = slots.take(beats=False)
            await silent.__aenter__()
            await until(lambda: slots.stats().lost == 1)
            assert silent.revoked
            with pytest.raises(SlotLost):
                await silent.__aexit__(None, None, None)
        assert slots.stats().lost == 1


async def test_a_reload_is_noticed_by_the_version() -> None:
    backend, version = Backend(), "v1"
    slots = Slots(2, open=backend.open, version=lambda: version, base_timeout_s=0.1)
    async with slots, slots.take() as old:
        assert old.version == "v1"
        version = "v2"
        await until(lambda: slots.stats().version == "v2")
        assert old.revoked
        async with slots.take() as new:
            assert new.version == "v2"


async def test_a_request_that_waits_for_tokens_inherits_its_slots_priority() -> None:
    #  low has the only slot and waits for tokens behind three others; high waits for the slot
    gateway = Gateway(brokers="nowhere:1", name="edge", pools=[POOL], clock=lambda: 1000)
    gate = gateway._lanes[POOL].gate
    gate.acknowledged(EPOCH_MS, 0, 0)
    waits = {"classes": class_states(elastic={"longest_wait_ms": 60_000})}
    give(gate, 0, ("ela", 1000, 1000, 0), changes=waits)
    await gateway.request(tenant="ela", pool=POOL, estimate=3000).__aenter__()
    low = gateway.request(tenant="ela", pool=POOL, estimate=10, user="low")

    async def work(slots: Slots) -> None:
        async with slots.take(priority=1) as slot, slot.follow(low):
            pass

    async with Slots(1) as slots:
        task = asyncio.create_task(work(slots))
        await until(lambda: low.state == "waiting")
        assert low.priority == 1
        high = asyncio.create_task(slots.take(priority=3).__aenter__())
        await until(lambda: low.priority == 3)
        for one in (high, task):
            one.cancel()
        await asyncio.gather(high, task, return_exceptions=True)
    assert len(gate.lines) == 0


@pytest.mark.parametrize(("size", "ready"), [(0, 0), (2, 3), (1, -1)])
def test_a_size_that_makes_no_sense_is_refused(size: int, ready: int) -> None:
    with pytest.raises(BadInput, match="size is"):
        Slots(size, ready=ready)
