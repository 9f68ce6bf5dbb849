"""A pool's state as rows, and back."""

import random
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest

from tests.pools import START, pool_with, report, spec, step, tenant
from tests.property.long_log import mixed
from tokenweir.core.pool import FIGURES, FILLING, GAUGES, HELD, Pool, new_pool
from tokenweir.core.step import advance
from tokenweir.errors import BadRecord
from tokenweir.records.rows import BlockRow, GatewayRow
from tokenweir.records.usage import CapacityReport
from tokenweir.rows import BLOCK, from_rows, to_rows
from tokenweir.wire import decode_as, encode


def busy_pool(tenants: int = 3) -> Pool:
    """A pool with something in every field: gateways, issues, gauges, pending changes, a tier."""
    names = [f"t{n:03}" for n in range(tenants)]
    claims = [tenant(name, "elastic", 1_000 / tenants) for name in names]
    pool = pool_with(spec(*claims, tenant("zero", "spot", suspended=True)))
    for second in range(12):
        at_ms = START + second * 1_000
        applied = at_ms - 2_000 if second > 3 else 0
        some = report(
            "g",
            2 * second + 1,
            dict.fromkeys(names, 9_900 // tenants),
            sequences={names[0]: 3},
            queued={names[-1]: 70},
            applied=applied,
        )
        step(pool, some, at_ms)
        step(pool, report("h/1", second + 1, more=second == 11), at_ms + 300)
    step(pool, report("left", 1, closing=True), START + 11_500)
    step(pool, CapacityReport("chat", "x", 7_000_000, 5, 6), START + 12_100)
    step(pool, spec(*claims, version=2), START + 12_200)
    return pool


def same(one: Any, other: Any) -> bool:
    """Whether two states are equal through and through."""
    if isinstance(one, np.ndarray):
        return bool(np.array_equal(one, other)) and one.dtype == other.dtype
    if is_dataclass(one) and hasattr(one, "__dataclass_fields__"):
        names = [field.name for field in fields(one)]
        return all(same(getattr(one, name), getattr(other, name)) for name in names)
    if isinstance(one, dict):
        return set(one) == set(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def test_a_pool_that_is_restored_is_the_same_through_and_through() -> None:
    pool = busy_pool()
    assert pool.tier.tier != "normal"
    assert pool.gone
    assert pool.barred
    assert same(from_rows(to_rows(pool)), pool)


def test_a_pool_of_which_nothing_is_known_is_restored() -> None:
    assert same(from_rows(to_rows(new_pool("chat"))), new_pool("chat"))


def test_keys_begin_with_the_table_and_the_pool() -> None:
    assert list(to_rows(busy_pool())) == [
        "consumption/chat/00000",
        "debt/chat/00000",
        "ewma/chat/00000",
        "pools/chat",
        "pools/chat/g",
        "pools/chat/h/1",
    ]


def test_a_row_holds_up_to_256_tenants() -> None:
    pool = busy_pool(300)
    rows = to_rows(pool)
    assert BLOCK == 256
    assert [key for key in rows if key.startswith("ewma")] == ["ewma/chat/00000", "ewma/chat/00001"]
    assert same(from_rows(rows), pool)


def test_the_same_state_gives_the_same_bytes() -> None:
    assert to_rows(busy_pool()) == to_rows(busy_pool())


def test_rows_that_stand_in_another_order_give_the_same_pool() -> None:
    pool = busy_pool(300)
    for seed in range(3):
        assert to_rows(mixed(pool, random.Random(seed))) == to_rows(pool)


def test_a_restored_pool_goes_on_as_the_first_would() -> None:
    pool = busy_pool()
    again = from_rows(to_rows(pool))
    first, second = (advance(each, START + 13_000) for each in (pool, again))
    assert first is not None
    assert second is not None
    assert [*map(encode, first.entries)] == [*map(encode, second.entries)]
    assert to_rows(pool) == to_rows(again)


@pytest.mark.parametrize("key", ["pools/chat", "pools/chat/g", "debt/chat/00001"])
def test_a_row_that_lacks_is_noticed(key: str) -> None:
    rows = to_rows(busy_pool(300))
    del rows[key]
    with pytest.raises(KeyError):
        from_rows(rows)


def test_rows_of_before_a_column_was_added_are_restored_with_zeros() -> None:
    rows = to_rows(busy_pool())
    block = decode_as(BlockRow, rows["ewma/chat/00000"])
    values = np.frombuffer(block.values, "<i8").reshape(-1, block.columns)[:, :10]
    old = BlockRow(block.tenant, 10, values.tobytes())
    pool = from_rows({**rows, "ewma/chat/00000": encode(old)})
    assert pool.tally.borrowed.any()
    assert not pool.tally.limit.any()


def test_gauges_that_older_rows_hold_in_the_place_of_what_comes_in_are_dropped() -> None:
    pool = busy_pool()
    rows = to_rows(pool)
    row = decode_as(GatewayRow, rows["pools/chat/g"])
    figures = np.frombuffer(row.figures, "<i8").reshape(FIGURES, -1).copy()
    figures[FILLING:HELD] = figures[FILLING - len(GAUGES) : FILLING]
    assert figures[FILLING:HELD].any()
    older = encode(replace(row, figures=figures.tobytes()))
    assert same(from_rows({**rows, "pools/chat/g": older}), pool)


def test_rows_of_two_pools_are_refused() -> None:
    rows = {**to_rows(new_pool("chat")), **to_rows(new_pool("code"))}
    with pytest.raises(KeyError, match="exactly one pool"):
        from_rows(rows)


def test_no_rows_are_refused() -> None:
    with pytest.raises(KeyError):
        from_rows({})


@pytest.mark.parametrize("key", ["pools/chat", "pools/chat/g", "ewma/chat/00000"])
def test_a_row_that_is_no_row_is_refused(key: str) -> None:
    rows = to_rows(busy_pool())
    with pytest.raises(BadRecord):
        from_rows({**rows, key: b"\x00"})


def test_a_row_of_another_table_is_refused() -> None:
    rows = to_rows(busy_pool())
    with pytest.raises(BadRecord, match="expected PoolRow, found BlockRow"):
        from_rows({**rows, "pools/chat": rows["debt/chat/00000"]})
