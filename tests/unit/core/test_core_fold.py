"""Reports are counted once, whatever happened to them on their way (R1-R3, T5, T7)."""

from dataclasses import replace

import pytest

from tests.pools import ONE, START, pool_with, report, spec, step, tenant
from tokenweir.core.pool import COUNTERS, Pool, new_pool
from tokenweir.core.step import advance, fold
from tokenweir.errors import BadRecord
from tokenweir.records.spec import Capacity, TokenWeights
from tokenweir.records.usage import CapacityReport, QuotaCeiling, UsageReport
from tokenweir.rows import to_rows

DAY_MS = 86_400_000
A, B = tenant("a", "elastic", 100), tenant("b", "spot")


@pytest.fixture
def pool() -> Pool:
    return pool_with(spec(A, B))


def total(pool: Pool, name: str, counter: str = "charged") -> int:
    return int(pool.totals[pool.terms.index[name], COUNTERS.index(counter)])


def in_window(pool: Pool, name: str) -> int:
    return int(pool.window.tokens[:, pool.terms.index[name]].sum())


@pytest.mark.parametrize("times", [1, 2, 5])
def test_a_report_that_is_sent_so_often_is_charged_once(pool: Pool, times: int) -> None:
    step(pool, report("g", 1), START)
    for late_ms in range(times):  # sent again, unchanged but for its age
        step(pool, report("g", 2, {"a": 500}, age_ms=late_ms), START + 100 + late_ms)
    assert total(pool, "a") == 500
    assert pool.gateways["g"].missing == 0


def test_reports_that_never_came_are_counted(pool: Pool) -> None:
    for sequence in (1, 2, 6):
        step(pool, report("g", sequence, {"a": 1}), START)
    assert pool.gateways["g"].missing == 3
    step(pool, report("g", 4, {"a": 1}), START)  # too late: below the last
    assert total(pool, "a") == 3


def test_sequences_belong_to_one_gateway(pool: Pool) -> None:
    for name in ("g", "h"):
        step(pool, report(name, 1, {"a": 10}), START)
    assert total(pool, "a") == 20


def test_what_a_dead_process_left_in_its_spool_counts_once_for_a_day(pool: Pool) -> None:
    step(pool, report("g", 1, {"a": 1}), START)
    step(pool, report("g", 2, {"a": 2}, closing=True), START + 100)
    for hour in range(1, 24):
        step(pool, report("h", hour), START + hour * 3_600_000)
    assert "g" not in pool.gateways
    late = START + 23 * 3_600_000
    step(pool, report("g", 2, {"a": 2}), late)
    assert total(pool, "a") == 3
    step(pool, report("g", 3, {"a": 4}, age_ms=10), late)
    assert total(pool, "a") == 7


def test_a_sequence_is_forgotten_after_a_day(pool: Pool) -> None:
    step(pool, report("g", 1, closing=True), START)
    step(pool, report("h", 1), START + 1_000)
    assert pool.gone == {"g": (1, START)}
    step(pool, report("h", 2), START + DAY_MS)
    assert pool.gone == {"g": (1, START)}
    step(pool, report("h", 3), START + DAY_MS + 1_000)
    assert pool.gone == {}


def test_zero_is_charged_as_zero_and_the_request_is_counted(pool: Pool) -> None:
    some = report("g", 1, {"a": 5})
    step(pool, replace(some, totals=replace(some.totals, tokens_out=[0])), START)
    assert (total(pool, "a"), total(pool, "a", "requests")) == (0, 1)


def test_a_correction_replaces_what_was_reported_before(pool: Pool) -> None:
    """Provisional 26, final 511: the increment is 485; and the other way round it is negative."""
    step(pool, report("g", 1, {"a": 26, "b": 511}), START)
    step(pool, report("g", 2, {"a": 485, "b": -485}), START + 9_000)
    assert (total(pool, "a"), total(pool, "b")) == (511, 26)
    assert (in_window(pool, "a"), in_window(pool, "b")) == (511, 26)


def test_a_correction_of_what_has_left_the_window_is_no_credit() -> None:
    pool = pool_with(spec(A))
    step(pool, report("g", 1, {"a": 500}), START)
    step(pool, report("g", 2), START + 65_000)
    step(pool, report("g", 3, {"a": -500}), START + 90_000)
    decided = advance(pool, START + 91_000)
    assert decided is not None
    assert total(pool, "a") == 0
    assert decided.decision.level_now == 0


def test_kinds_of_tokens_are_charged_by_their_weights() -> None:
    rules = replace(spec(A), token_weights=TokenWeights(ONE, ONE // 10, 4 * ONE))
    pool = pool_with(rules)
    step(pool, report("g", 1), START)
    some = report("g", 2, {"a": 5})
    totals = replace(some.totals, tokens_uncached=[100], tokens_cached=[205], tokens_out=[30])
    step(pool, replace(some, totals=totals), START)
    assert total(pool, "a") == 240  # 100 + 20.5 + 120, rounded down


def test_names_that_no_spec_knows_are_counted_together(pool: Pool) -> None:
    step(pool, report("g", 1), START)
    step(pool, report("g", 2, {"x": 1, "y": 2, "*": 4}), START)
    assert total(pool, "*") == 7


def test_two_users_of_a_tenant_add_up(pool: Pool) -> None:
    step(pool, report("g", 1), START)
    some = report("g", 2, {"a": 3, "b": 4})
    step(pool, replace(some, totals=replace(some.totals, tenant=[0, 0])), START)
    assert (total(pool, "a"), total(pool, "b")) == (7, 0)


def test_empty_columns_are_zeros(pool: Pool) -> None:
    some = report("g", 1, {"a": 3})
    step(pool, replace(some, totals=replace(some.totals, requests=[], age_ms=[])), START)
    assert (total(pool, "a", "requests"), total(pool, "a")) == (0, 3)


class TestLateUsage:
    """Window 60 s, grace 10 s (T7). A report of second 0 that comes late."""

    def test_eight_seconds_late_it_is_in_the_window_it_belongs_to(self, pool: Pool) -> None:
        step(pool, report("h", 1), START + 8_500)
        step(pool, report("g", 1, {"a": 7}, age_ms=8_000), START + 8_500)
        second = START // 1000 % pool.window.flows.shape[1]
        assert pool.window.tokens[second, pool.terms.index["a"]] == 7

    def test_until_window_and_grace_are_over_it_finds_its_second(self, pool: Pool) -> None:
        step(pool, report("h", 1), START + 68_000)
        step(pool, report("g", 1, {"a": 7}, age_ms=67_500), START + 68_000)
        assert in_window(pool, "a") == 7

    def test_later_than_that_it_is_in_the_totals_only(self, pool: Pool) -> None:
        step(pool, report("h", 1), START + 90_000)
        step(pool, report("g", 1, {"a": 7}, age_ms=72_000), START + 90_000)
        assert (in_window(pool, "a"), total(pool, "a")) == (0, 7)

    def test_a_row_can_be_older_than_its_report(self, pool: Pool) -> None:
        step(pool, report("h", 1), START + 30_000)
        step(pool, report("g", 1, {"a": 7}, age_ms=2_000, row_age_ms=3_000), START + 30_000)
        second = (START + 25_000) // 1000 % pool.window.flows.shape[1]
        assert pool.window.tokens[second, pool.terms.index["a"]] == 7

    def test_what_was_kept_in_a_spool_is_no_demand_of_this_interval(self, pool: Pool) -> None:
        step(pool, report("h", 1), START + 30_000)
        step(pool, report("g", 1, {"a": 7}, age_ms=20_000), START + 30_100)
        assert not pool.gateways["g"].spent.any()

    def test_usage_is_never_in_the_future(self, pool: Pool) -> None:
        advance(pool, START + 5_000)
        fold(pool, report("g", 1, {"a": 7}), START + 5_000)
        advance(pool, START + 4_000)  # the broker's clock stepped back
        fold(pool, report("g", 2, {"a": 7}), START + 4_000)
        assert in_window(pool, "a") == 14


class TestGauges:
    def test_they_are_whole_in_each_report_and_absent_means_none(self, pool: Pool) -> None:
        step(pool, report("g", 1, sequences={"a": 3, "b": 5}), START)
        step(pool, report("g", 2, sequences={"b": 4}), START)
        assert pool.gateways["g"].gauges[1].tolist() == [0, 0, 4]

    def test_parts_of_one_report_add_up_and_count_when_the_last_is_there(self, pool: Pool) -> None:
        step(pool, report("g", 1, sequences={"a": 9}), START)
        step(pool, report("g", 2, sequences={"a": 1}, more=True), START)
        step(pool, report("g", 3, sequences={"a": 2, "b": 4}, more=True), START)
        assert pool.gateways["g"].gauges[1].tolist() == [0, 9, 0]
        step(pool, report("g", 4, sequences={"b": 1}), START)
        assert pool.gateways["g"].gauges[1].tolist() == [0, 3, 5]
        step(pool, report("g", 5), START)
        assert pool.gateways["g"].gauges[1].tolist() == [0, 0, 0]


def change(some: UsageReport, **columns: object) -> UsageReport:
    return replace(some, totals=replace(some.totals, **columns))  # type: ignore[arg-type]


SOME = report("g", 1, {"a": 5})
BAD = {
    "sequence 0": replace(SOME, sequence=0),
    "a negative age": replace(SOME, age_ms=-1),
    "an age of a month": replace(SOME, age_ms=30 * DAY_MS),
    "a decision that is not taken yet": replace(SOME, applied=START + 60_000),
    "a negative decision": replace(SOME, applied=-1),
    "a column of another length": change(SOME, tokens_out=[5, 5]),
    "a tenant that is no name": change(SOME, tenant=[1]),
    "a tenant below the names": change(SOME, tenant=[-1]),
    "a user that is no name": change(SOME, user=[7]),
    "fewer users than tenants": change(SOME, user=[]),
    "negative requests": change(SOME, requests=[-1]),
    "more tokens than anybody has": change(SOME, tokens_out=[10**9 + 1]),
    "tokens of more than 64 bits": change(SOME, tokens_out=[2**70]),
    "more KV bytes than there are": change(SOME, kv_bytes=[10**14]),
    "a row older than a week": change(SOME, age_ms=[8 * DAY_MS]),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_a_report_that_cannot_be_is_refused_and_changes_nothing(
    pool: Pool, bad: UsageReport
) -> None:
    step(pool, report("h", 1, {"a": 1}), START)
    before = to_rows(pool)
    with pytest.raises(BadRecord):
        fold(pool, bad, START)
    assert to_rows(pool) == before


def test_a_report_before_any_spec_is_counted(pool: Pool) -> None:
    empty = new_pool("chat")
    assert step(empty, report("g", 1, {"a": 5}), START) is None
    assert total(empty, "*") == 5


def test_a_ceiling_of_a_quota_that_is_not_there_changes_nothing(pool: Pool) -> None:
    before = to_rows(pool)
    fold(pool, QuotaCeiling("chat", "a", "", "day/2027-01-15", START, START + DAY_MS, 5), START)
    assert to_rows(pool) == before


def test_a_ceiling_below_0_is_bad(pool: Pool) -> None:
    with pytest.raises(BadRecord, match="tokens is -1"):
        fold(
            pool, QuotaCeiling("chat", "a", "", "day/2027-01-15", START, START + DAY_MS, -1), START
        )


class TestCapacity:
    def test_what_a_report_leaves_out_stays(self) -> None:
        pool = pool_with(spec(A, sequences=50, kv_bytes=10**9))
        advance(pool, START)
        fold(pool, CapacityReport("chat", "backend", None, None, 40), START)
        fold(pool, CapacityReport("chat", "backend", 5_000_000, None, None), START)
        advance(pool, START + 1_000)
        assert pool.capacity == Capacity(5_000_000, 10**9, 40)

    def test_a_spec_that_repeats_its_capacity_keeps_what_was_reported_since(self) -> None:
        pool = pool_with(spec(A))
        step(pool, CapacityReport("chat", "backend", 5_000_000, None, None), START + 1_000)
        step(pool, spec(A, B, version=2), START + 2_000)
        fold(pool, CapacityReport("chat", "backend", None, 7, None), START + 2_100)
        advance(pool, START + 3_000)
        assert pool.capacity == Capacity(5_000_000, 7, None)

    def test_of_two_changes_in_one_interval_the_later_holds(self) -> None:
        pool = pool_with(spec(A))
        step(pool, CapacityReport("chat", "backend", 5_000_000, None, None), START + 1_000)
        fold(pool, spec(A, version=2, capacity=20_000), START + 1_100)
        advance(pool, START + 2_000)
        assert pool.capacity.tokens_per_s == 20_000_000

    @pytest.mark.parametrize("value", [-1, 10**12 + 1, 2**70])
    def test_one_that_cannot_be_is_refused(self, pool: Pool, value: int) -> None:
        with pytest.raises(BadRecord, match="tokens_per_s"):
            fold(pool, CapacityReport("chat", "backend", value, None, None), START)
        assert pool.pending_capacity is not None  # the spec's
        assert pool.pending_capacity.tokens_per_s == 10_000_000
