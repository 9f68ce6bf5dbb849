from dataclasses import replace
from typing import Any

import pytest

from tests.unit.history.made import NOON_MS, Increment, block, record, report
from tokenweir.errors import BadRecord
from tokenweir.history.balance import balance
from tokenweir.history.increments import requests_of, usage_rows
from tokenweir.history.rows import Block
from tokenweir.history.tables import USAGE
from tokenweir.wire import encode


def rows_of(*increments: Increment, **changes: Any) -> dict[str, list[object]]:
    whole = report(1, *increments, **changes)
    made = Block(USAGE)
    made.add(record(41, whole), usage_rows(whole, requests_of(whole), NOON_MS))
    return made.columns


def test_a_row_happened_at_its_append_time_minus_both_ages() -> None:
    #  row ──300 ms──▶ cut ──200 ms──▶ appended at noon
    columns = rows_of(Increment(age_ms=300), Increment(), age_ms=200)
    assert columns["event_time"] == [NOON_MS - 500, NOON_MS - 200]
    assert columns["append_time"] == [NOON_MS + 41 * 500] * 2


def test_rows_are_identified_by_their_place_in_the_log() -> None:
    columns = rows_of(Increment("a"), Increment("b"), Increment("c"))
    assert columns["offset"] == [41, 41, 41]
    assert columns["index"] == [0, 1, 2]
    assert columns["logical_request_id"] == ["a", "b", "c"]


def test_columns_that_were_left_out_are_zeros_and_empty_names() -> None:
    columns = rows_of(Increment(tenant="acme", user=""))
    assert columns["kv_bytes"] == [0]
    assert (columns["tenant"], columns["user"], columns["model"]) == (["acme"], [""], [""])


def test_every_column_of_the_table_is_filled() -> None:
    columns = rows_of(Increment(), Increment())
    assert {len(column) for column in columns.values()} == {2}


def test_a_correction_may_take_tokens_back() -> None:
    assert rows_of(Increment(out=-26))["tokens_out"] == [-26]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"status": ["done"]}, "status has 1 values of 2"),
        ({"tokens_out": [1, 2, 3]}, "tokens_out has 3 values of 2"),
        ({"wait_ms": [0, -5]}, "wait_ms is -5"),
        ({"tenant": [1, 99]}, "tenant names 99"),
        ({"user": [0, -1]}, "user is -1"),
        ({"names": ()}, "names"),
    ],
)
def test_a_block_that_contradicts_itself_names_the_column(
    change: dict[str, object], reason: str
) -> None:
    broken = replace(block([Increment("a"), Increment("b")]), **change)  # type: ignore[arg-type]
    with pytest.raises(BadRecord, match=reason):
        requests_of(report(1, requests=encode(broken)))


def test_increments_that_add_up_balance() -> None:
    whole = report(
        1,
        Increment("a", status="part", uncached=5, out=3),
        Increment("a", cached=7, out=4),
        Increment("b", user="bob", status="refused", refused_tokens=90),
        Increment("c", status="cancelled", error=True),
    )
    found = balance(whole.totals, requests_of(whole))
    assert found
    assert found.said == found.counted == (2, 1, 5, 7, 7, 1, 90)


def test_a_total_that_is_wrong_is_computed_again_from_the_parts() -> None:
    """Field note 13: prompt 9 000, completion 300, and a total that says 300."""
    whole = report(1, Increment(uncached=9000, out=300))
    wrong = replace(whole, totals=replace(whole.totals, tokens_uncached=[0]))
    found = balance(wrong.totals, requests_of(wrong))
    assert not found
    assert found.differ == ("acme",)
    assert found.counted == (1, 0, 9000, 0, 300, 0, 0)
    assert found.said == (1, 0, 0, 0, 300, 0, 0)


def test_tokens_on_the_wrong_user_do_not_balance_though_the_sums_do() -> None:
    whole = report(1, Increment("a", user="ann", out=5), Increment("b", user="bob", out=9))
    swapped = replace(whole, totals=replace(whole.totals, tokens_out=[9, 5]))
    found = balance(swapped.totals, requests_of(swapped))
    assert found.said == found.counted
    assert found.differ == ("acme",)
