from tests.unit.gateway.made import EPOCH_MS, POOL, ask, class_states, give, obeying, reason, settle
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
