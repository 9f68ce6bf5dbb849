from dataclasses import replace

import pytest

from tests.unit.gateway.made import (
    EPOCH_MS,
    ONE,
    POOL,
    Row,
    ask,
    class_states,
    give,
    obeying,
    reason,
    roster,
    settle,
)
from tokenweir.errors import BadRecord
from tokenweir.gateway.pool import PoolGate

LEASE = ("gua", 100, 100, 100)


def test_a_wait_ends_exactly_when_tokens_are_there() -> None:
    gate = obeying(LEASE)
    ask(gate, 1000, "gua", 150)  # 50 are owed: half a second
    request = ask(gate, 1000, "gua", 10)
    assert (request.state, gate.next_ms) == ("waiting", 1501)
    assert gate.serve(1500) == []
    assert gate.serve(1501) == [request]
    assert (request.state, request.wait_ms) == ("admitted", 501)


def test_nobody_overtakes_in_a_line() -> None:
    gate = obeying(LEASE)
    ask(gate, 1000, "gua", 150)
    first, second = ask(gate, 1000, "gua", 500), ask(gate, 1600, "gua", 1)
    assert second.state == "waiting"
    assert gate.serve(1600) == [first]
    assert second.state == "waiting"


def test_a_class_waits_as_long_as_its_terms_say_and_the_caller_lets_it() -> None:
    waits = {"classes": class_states(spot={"longest_wait_ms": 400})}
    gate = obeying(("spo", 1, 1, 0), changes=waits)
    ask(gate, 1000, "spo", 100)
    long, short = ask(gate, 1000, "spo"), ask(gate, 1000, "spo", timeout_ms=100)
    assert ask(gate, 1000, "spo", timeout_ms=0).state == "ended"
    assert gate.serve(1100) == [short]
    assert gate.serve(1400) == [long]
    assert reason(long) == "tokens"


def test_a_settled_request_lets_the_next_one_in() -> None:
    gate = obeying(LEASE)
    running = ask(gate, 1000, "gua", 150)
    request = ask(gate, 1000, "gua", 10)
    settle(gate, running, 1100, 20)
    assert gate.next_ms == 1100
    assert gate.serve(1100) == [request]


def test_who_goes_away_leaves_nothing_behind() -> None:
    gate = obeying(LEASE)
    ask(gate, 1000, "gua", 150)
    request = ask(gate, 1000, "gua", 10)
    gate.abandon(request, 1200)
    assert (len(gate.lines), gate.subjects["gua"].waiting) == (0, 0)
    assert reason(request) == "abandoned"
    assert gate.serve(1501) == []


def test_who_goes_away_after_it_was_admitted_returns_everything() -> None:
    gate = obeying(LEASE)
    request = ask(gate, 1000, "gua", 60)
    gate.abandon(request, 1000)
    assert gate.subjects["gua"].bucket.level == 100_000
    assert gate.subjects["gua"].in_flight == 0


def test_no_more_wait_than_there_is_room_for() -> None:
    gate = PoolGate(POOL, "edge", most_waiting=2)
    gate.acknowledged(EPOCH_MS, 0, 0)
    give(gate, 0, LEASE)
    ask(gate, 1000, "gua", 150)
    reasons = [reason(ask(gate, 1000, "gua")) for _ in range(3)]
    assert reasons == ["waiting", "waiting", "queue_full"]


def test_a_decision_that_closes_a_class_ends_its_waits() -> None:
    gate = obeying(LEASE)
    ask(gate, 1000, "gua", 150)
    request = ask(gate, 1000, "gua")
    give(gate, 1000, LEASE, changes={"breaker": "open", "breaker_refuses": "all"})
    assert gate.next_ms == 1000
    assert gate.serve(1000) == [request]
    assert reason(request) == "breaker"


def test_closing_tells_who_waits_and_ends_what_runs_as_an_estimate() -> None:
    gate = obeying(LEASE)
    running = ask(gate, 1000, "gua", 150)
    request = ask(gate, 1000, "gua")
    assert gate.close(1100) == [request]
    assert reason(request) == "closing"
    assert running.status == "cancelled"
    assert gate.rows[-1][16] is True  # estimated
    assert reason(ask(gate, 1200, "gua")) == "closing"


def full(*rows: Row, most: int) -> PoolGate:
    gate = PoolGate(POOL, "edge", most_waiting=most)
    gate.acknowledged(EPOCH_MS, 0, 0)
    waits = {name: {"longest_wait_ms": 60_000} for name in ("elastic", "spot")}
    give(gate, 0, *rows, changes={"classes": class_states(**waits)})
    for tenant, *_ in rows:
        ask(gate, 1000, tenant, 5000)  # it owes for as long as this takes
    return gate


def test_a_newcomer_of_a_higher_class_drops_the_newest_of_the_lowest() -> None:
    gate = full(("gua", 100, 100, 0), ("ela", 100, 100, 0), ("spo", 100, 100, 0), most=3)
    elastic, older, newest = ask(gate, 1001, "ela"), ask(gate, 1002, "spo"), ask(gate, 1003, "spo")
    request = ask(gate, 1004, "gua")
    assert (request.state, older.state, elastic.state) == ("waiting", "waiting", "waiting")
    assert reason(newest) == "queue_full"
    assert gate.next_ms == 1004
    assert gate.serve(1004) == [newest]
    assert newest.denial is not None
    assert newest.denial.retry_ms == 49_007  # 4 899.6 are owed, at 100 a second, and 1 waits


def test_a_newcomer_of_the_same_or_a_lower_class_is_refused_itself() -> None:
    gate = full(("ela", 100, 100, 0), ("spo", 100, 100, 0), most=1)
    waiting = ask(gate, 1001, "ela")
    assert reason(ask(gate, 1002, "ela")) == "queue_full"
    assert reason(ask(gate, 1002, "spo")) == "queue_full"
    assert waiting.state == "waiting"


def test_of_one_class_batch_is_dropped_before_online_and_low_priorities_first() -> None:
    gate = full(("ela", 100, 100, 0), most=2)
    batch, low = ask(gate, 1001, "ela", flow="batch"), ask(gate, 1002, "ela", priority=1)
    middle, high = ask(gate, 1003, "ela"), ask(gate, 1004, "ela", priority=3)
    states = [reason(request) for request in (batch, low, middle, high)]
    assert states == ["queue_full", "queue_full", "waiting", "waiting"]


def test_each_refusal_is_promised_the_next_place() -> None:
    #  100 tokens/s; 100 are owed at 1 000 ms, so a place a second for those that ask for 100
    gate = obeying(("spo", 100, 100, 0))
    ask(gate, 1000, "spo", 200)
    refused = [ask(gate, 1000, "spo", 100) for _ in range(3)]
    assert [r.denial.retry_ms for r in refused if r.denial is not None] == [1001, 2001, 3001]
    assert ask(gate, 2001, "spo", 100).state == "admitted"
    later = ask(gate, 2001, "spo", 100)
    assert later.denial is not None
    assert later.denial.retry_ms == 3000  # those of 3 001 and 4 001 may still come


def test_a_deadline_that_has_passed_never_waits() -> None:
    gate = obeying(LEASE)
    ask(gate, 1000, "gua", 150)
    assert reason(ask(gate, 1000, "gua", timeout_ms=0)) == "tokens"


def test_another_priority_moves_a_waiting_request() -> None:
    gate = obeying(LEASE)
    ask(gate, 1000, "gua", 150)
    #  the first of each begins at once; behind it weigh 100/1 and 100/4
    firsts = [ask(gate, 1001, "gua", 100, user=user, priority=1) for user in "ab"]
    second, third = (ask(gate, 1002, "gua", 100, user=user, priority=1) for user in "ab")
    gate.promote(third, 3, 1003)
    gate.subjects["gua"].bucket.level = 10**9
    gate.subjects["gua"].bucket.burst = 10**9
    assert gate.serve(1003) == [firsts[0], firsts[1], third, second]


def test_a_users_weight_comes_with_the_roster_and_holds_for_those_who_wait() -> None:
    gate = obeying(LEASE)
    ask(gate, 1000, "gua", 150)
    #  behind the first of each weigh 100/1 and, once the roster says so, 100/4
    firsts = [ask(gate, 1001, "gua", 100, user=user, priority=1) for user in "ab"]
    light, heavy = (ask(gate, 1002, "gua", 100, user=user, priority=1) for user in "ab")
    weights = {"user_tenant": ["gua"], "user": ["b"], "user_weight": [4 * ONE]}
    gate.hear(replace(roster(version=2), **weights), 1003)  # type: ignore[arg-type]
    gate.subjects["gua"].bucket.level = gate.subjects["gua"].bucket.burst = 10**9
    gate.lines.touch_all(1003)
    assert gate.serve(1003) == [*firsts, heavy, light]


def test_a_user_that_weighs_nothing_is_refused_with_the_whole_roster() -> None:
    gate = obeying(LEASE)
    weights = {"user_tenant": ["gua"], "user": ["b"], "user_weight": [0]}
    with pytest.raises(BadRecord, match="user_weight has 0"):
        gate.hear(replace(roster(version=2), **weights), 1003)  # type: ignore[arg-type]
    assert gate.user_weights == {}
