"""Time of a pool, and what one decision after another sees (T1, T2, S6, A2)."""

from dataclasses import replace

import pytest

from tests.pools import START, pool_with, report, spec, step, tenant
from tokenweir.core.pool import Pool, new_pool
from tokenweir.core.step import Decided, advance, fold
from tokenweir.records.journal import AuditEntry, DecisionEntry, JournalEntry, TenantFigures
from tokenweir.records.usage import CapacityReport
from tokenweir.wire import encode

A, B = tenant("a", "elastic", 1_000), tenant("b", "spot")


def figures(decided: Decided | None) -> TenantFigures:
    assert decided is not None
    body = decided.entries[0].body
    assert isinstance(body, DecisionEntry)
    return body.tenants


def audits(decided: Decided | None) -> list[AuditEntry]:
    assert decided is not None
    return [entry.body for entry in decided.entries if isinstance(entry.body, AuditEntry)]


def value(decided: Decided | None, column: str, name: str) -> int:
    """A figure of a tenant; 0 for one that is idle and left out."""
    found = figures(decided)
    if name not in found.tenant:
        return 0
    return int(getattr(found, column)[list(found.tenant).index(name)])


def test_time_never_runs_backwards() -> None:
    pool = pool_with(spec(A))
    advance(pool, START + 2_500)
    assert advance(pool, START + 500) is None
    assert (pool.clock_ms, pool.boundary_ms) == (START + 2_500, START + 2_000)


def test_a_decision_is_due_at_each_multiple_of_the_interval() -> None:
    #  ──┬── first spec ──┬──────────┬───────
    #    -500             0          1000
    pool = pool_with(spec(A))
    seen = [advance(pool, START + ms) for ms in (-1, 0, 999, 1_000)]
    assert [found and found.decision.at_ms - START for found in seen] == [None, 0, None, 1_000]


def test_a_message_that_passes_many_boundaries_makes_one_decision_for_the_newest() -> None:
    pool = pool_with(spec(A))
    advance(pool, START)
    decided = advance(pool, START + 7_400)
    assert decided is not None
    assert decided.decision.at_ms == START + 7_000
    assert decided.decision.id == f"chat@{START + 7_000}"
    assert decided.entries[0].id == decided.decision.id


def test_skipped_boundaries_repeat_the_decays() -> None:
    """Use of 1 000 tokens in one second, then silence: as if an empty report came each second."""
    silent, busy = (pool_with(spec(A, B)) for _ in range(2))
    for pool in (silent, busy):
        step(pool, report("g", 1, {"a": 1_000}, refused={"a": 9_000, "b": 500}), START)
    for second in range(1, 10):
        step(busy, report("g", 1 + second), START + second * 1_000)
    last = [advance(pool, START + 10_000) for pool in (silent, busy)]
    assert [value(each, "rate", "a") for each in last] == [
        12_105,
        12_105,
    ]  # 300 000 · 0.7^9, rounded down
    assert silent.tally.refusals.tolist() == busy.tally.refusals.tolist()
    assert silent.tally.burst.tolist() == busy.tally.burst.tolist()
    assert silent.gateways["g"].demand.tolist() == busy.gateways["g"].demand.tolist()


def test_debt_decays_over_skipped_boundaries() -> None:
    pool = pool_with(spec(A, tenant("d", "dedicated", 9_400)))
    step(pool, report("g", 1), START)
    place = pool.terms.index["a"]
    pool.tally.debt[place] = 500_000
    advance(pool, START + 4_000)
    assert int(pool.tally.debt[place]) == 328_050  # 0.9^4


def test_a_very_long_silence_repeats_a_window_of_decays_at_most() -> None:
    pool = pool_with(spec(A))
    step(pool, report("g", 1, {"a": 1_000}), START)
    decided = advance(pool, START + 365 * 86_400_000)
    assert value(decided, "rate", "a") == 0


def test_a_tenant_decays_to_nothing_while_only_others_move_the_time() -> None:
    """Nothing needs a timer, nor a message of the tenant's own."""
    pool = pool_with(spec(A, B))
    step(pool, report("g", 1, {"a": 1_000}, queued={"a": 200}), START)
    decided = None
    for half in range(1, 200):  # the other gateway's empty reports
        decided = step(pool, report("h", half), START + half * 500) or decided
    assert value(decided, "rate", "a") == 0
    assert value(decided, "used", "a") == 0
    assert value(decided, "demand", "a") == 0
    assert value(decided, "leased", "a") == 1_000_000  # the silent gateway's floor alone
    assert decided is not None
    assert decided.decision.level == 0


def test_the_queue_of_a_gateway_that_is_gone_is_no_demand_for_long() -> None:
    pool = pool_with(spec(A))
    step(pool, report("g", 1, queued={"a": 500}), START)
    seen = [step(pool, report("h", n), START + n * 1_000) for n in range(1, 6)]
    demand = [value(each, "demand", "a") for each in seen]
    assert demand[:3] == [500_000] * 3
    assert demand[3] < 350_000


def test_demand_is_what_was_spent_refused_and_waits() -> None:
    pool = pool_with(spec(A))
    step(pool, report("g", 1, {"a": 100}, refused={"a": 20}, queued={"a": 3}), START)
    decided = advance(pool, START + 1_000)
    assert value(decided, "demand", "a") == 123_000
    assert value(decided, "spent", "a") == 100
    assert value(decided, "refused_tokens", "a") == 20
    assert value(decided, "queued", "a") == 1


def test_a_decision_counts_an_interval_once() -> None:
    pool = pool_with(spec(A))
    step(pool, report("g", 1, {"a": 100}, refused={"a": 20}), START)
    advance(pool, START + 1_000)
    decided = advance(pool, START + 2_000)
    assert value(decided, "spent", "a") == value(decided, "refused", "a") == 0


def test_the_level_is_use_over_what_could_be_used() -> None:
    # 10 000 tokens/s for 2 s, then 3 s, of which 6 000 tokens were used: 30 %, then 20 %.
    pool = pool_with(spec(A))
    step(pool, report("g", 1, {"a": 6_000}), START)
    advance(pool, START + 1_000)
    decided = advance(pool, START + 2_000)
    assert decided is not None
    assert decided.decision.level_now == 200_000
    assert decided.decision.level == 123_000  # 0.3 · 30 %, then 0.7 of it + 0.3 · 20 %


def test_a_new_capacity_counts_from_its_boundary_on() -> None:
    # Two seconds at 10 000, one at 4 000, and 6 000 tokens used: 30 %, then 25 %.
    pool = pool_with(spec(A))
    step(pool, report("g", 1, {"a": 6_000}), START)
    step(pool, CapacityReport("chat", "backend", 4_000_000, None, None), START + 500)
    first = advance(pool, START + 1_000)
    second = advance(pool, START + 2_000)
    assert first is not None
    assert second is not None
    assert first.decision.level_now == 300_000
    assert second.decision.level_now == 250_000


def test_what_spot_takes_is_no_pressure_but_is_shown() -> None:
    pool = pool_with(spec(A, B))
    step(pool, report("g", 1, {"a": 1_000, "b": 4_000}), START)
    decided = advance(pool, START + 1_000)
    assert decided is not None
    assert (decided.decision.level_now, decided.decision.lent) == (50_000, 200_000)


@pytest.mark.parametrize(("sequences", "level"), [(100, 200_000), (10, 2_000_000), (None, 0)])
def test_sequences_make_a_level_of_their_own(sequences: int | None, level: int) -> None:
    # 40 of a's for one of the two seconds since the first spec.
    pool = pool_with(spec(A, B, sequences=sequences))
    step(pool, report("g", 1, sequences={"a": 40, "b": 10}), START)
    decided = advance(pool, START + 1_000)
    assert decided is not None
    assert decided.decision.level_now == level


def test_the_highest_of_the_resources_is_the_level() -> None:
    pool = pool_with(spec(A, sequences=100, kv_bytes=2**30))
    some = report("g", 1, {"a": 3_000}, sequences={"a": 40})
    step(pool, replace(some, totals=replace(some.totals, kv_bytes=[2**29])), START)
    decided = advance(pool, START + 1_000)
    assert decided is not None
    assert decided.decision.level_now == 250_000


@pytest.mark.parametrize("used", [0, 5])
def test_without_capacity_the_level_is_none_or_full_and_never_undefined(used: int) -> None:
    pool = pool_with(spec(A, capacity=0, sequences=0, kv_bytes=0))
    step(pool, report("g", 1, {"a": used} if used else {}), START)
    decided = advance(pool, START + 1_000)
    assert decided is not None
    assert decided.decision.level_now == (1_000_000 if used else 0)
    assert decided.decision.granted == 0


def test_a_pool_without_a_spec_decides_nothing() -> None:
    pool = new_pool("chat")
    assert advance(pool, START) is None
    fold(pool, report("g", 1, {"a": 5}), START)
    assert advance(pool, START + 60_000) is None
    assert pool.boundary_ms == 0


def test_the_audit_tells_a_new_spec_and_capacity() -> None:
    pool = pool_with(spec(A))
    assert [audit.kind for audit in audits(advance(pool, START))] == ["spec", "capacity"]
    fold(pool, CapacityReport("chat", "backend", 4_000_000, None, None), START)
    (audit,) = audits(advance(pool, START + 1_000))
    assert (audit.kind, audit.amount) == ("capacity", -6_000_000)
    assert (audit.before, audit.after) == ("10000 tokens/s", "4000 tokens/s")


def test_core_floors_above_the_capacity_are_an_alarm_once() -> None:
    pool = pool_with(spec(tenant("d", "dedicated", 3_000), tenant("g", "guaranteed", 2_000)))
    advance(pool, START)
    fold(pool, CapacityReport("chat", "backend", 4_000_000, None, None), START)
    kinds = [[each.kind for each in audits(advance(pool, START + n * 1_000))] for n in (1, 2)]
    assert kinds == [["capacity", "floors"], []]


def test_a_tier_change_and_whom_it_holds_back_are_told() -> None:
    pool = pool_with(spec(A, B))
    decided = None
    for second in range(1, 20):
        decided = step(pool, report("g", second, {"a": 9_000}), START + second * 1_000 - 1_000)
        if audits(decided) and audits(decided)[0].kind == "tier":
            break
    (audit,) = audits(decided)
    assert (audit.before, audit.after) == ("normal", "soft_degrade")
    assert audit.lost == ["*", "b"]


def test_a_reclaim_tells_who_lost_and_who_gained() -> None:
    pool = pool_with(spec(tenant("g", "guaranteed", 8_000), B))
    for second in range(3):
        step(pool, report("x", second + 1, {"b": 8_000}), START + second * 1_000)
    step(pool, report("x", 4, {"b": 8_000, "g": 8_000}), START + 3_000)
    (audit,) = audits(advance(pool, START + 4_000))
    assert (audit.kind, audit.lost, audit.gained) == ("reclaim", ["b"], ["g"])
    assert audit.amount > 0


def recorded(pool: Pool) -> list[bytes]:
    """All bytes of a short log."""
    out: list[bytes] = []
    for n in range(1, 40):
        decided = step(pool, report("g", n, {"a": n * 37, "b": n * 91}), START + n * 300)
        if decided is not None:
            records: list[object] = [*decided.leases, decided.barred, decided.roster]
            records += [decided.decision, *decided.entries]
            out += [encode(record) for record in records if record is not None]
    return out


def test_the_same_log_gives_the_same_bytes() -> None:
    """S6: consumers drop repeats by id, and a repeat that differs would be an alarm."""
    assert recorded(pool_with(spec(A, B))) == recorded(pool_with(spec(A, B)))


def test_the_order_of_a_specs_tenants_does_not_matter() -> None:
    other = replace(spec(A, B), entitlements=[B, A])
    assert recorded(pool_with(spec(A, B))) == recorded(pool_with(other))


def test_journal_ids_are_all_different() -> None:
    pool = pool_with(spec(A, B))
    entries: list[JournalEntry] = []
    for second in range(1, 30):
        load = 9_000 if second < 10 else 0
        decided = step(pool, report("g", second, {"a": load}), START + second * 1_000)
        entries += decided.entries if decided else ()
        entries += fold(pool, spec(A, version=7, replaces=6), START + second * 1_000)
    assert len({entry.id for entry in entries}) == len(entries)
