from tests.unit.gateway.made import (
    ONE,
    admitted,
    ask,
    barred,
    class_states,
    give,
    obeying,
    reason,
    settle,
)


def test_a_tenant_without_a_lease_is_served_from_the_pot() -> None:
    gate = obeying(pot=(100, 100))
    assert admitted(gate, 1000, "ela", 10) == 10
    assert reason(ask(gate, 1000, "ela")) == "pot"


def test_a_tenant_takes_no_more_than_its_class_allows() -> None:
    half = {"classes": class_states(elastic={"starter": ONE // 2})}
    gate = obeying(pot=(100, 100), changes=half)
    assert admitted(gate, 1000, "ela", 10) == 5
    assert admitted(gate, 1000, "spo", 10) == 5


def test_names_that_no_spec_knows_share_one_allowance() -> None:
    half = {"classes": class_states(spot={"starter": ONE // 2})}
    gate = obeying(pot=(100, 100), changes=half)
    states = [ask(gate, 1000, f"stranger-{n}", 10).state for n in range(10)]
    assert states.count("admitted") == 5


def test_a_pot_is_closed_from_hard_degrade_on_for_classes_without_a_floor() -> None:
    gate = obeying(pot=(100, 100), changes={"tier": "hard_degrade"})
    assert reason(ask(gate, 1000, "spo")) == "no_lease"
    assert ask(gate, 1000, "ela").state == "admitted"


def test_a_barred_tenant_finds_no_pot_until_it_ends() -> None:
    gate = obeying(pot=(100, 100))
    gate.hear(barred(0, ("ela", "quota", 2000), ("spo", "no_grant", 0)), 0)
    assert reason(ask(gate, 1000, "ela")) == "quota"
    assert reason(ask(gate, 1000, "spo")) == "no_grant"
    assert ask(gate, 2000, "ela").state == "admitted"


def test_a_barred_list_is_whole() -> None:
    gate = obeying(pot=(100, 100))
    ask(gate, 0, "ela")
    gate.hear(barred(0, ("ela", "no_grant", 0)), 0)
    gate.hear(barred(1000), 1000)
    assert ask(gate, 1000, "ela").state == "admitted"


def test_a_suspended_tenant_is_refused_whatever_lease_it_has() -> None:
    gate = obeying(("gua", 100, 100, 100))
    gate.hear(barred(0, ("gua", "suspended", 0)), 0)
    assert reason(ask(gate, 1000, "gua")) == "suspended"


def test_a_core_tenant_without_lease_or_pot_waits_and_is_served_by_the_next_decision() -> None:
    gate = obeying()
    request = ask(gate, 500, "gua", 10)
    assert request.state == "waiting"
    give(gate, 1000, ("gua", 100, 100, 100))
    assert gate.next_ms == 1000
    assert gate.serve(1000) == []
    assert gate.next_ms == 1001
    assert gate.serve(1001) == [request]
    assert (request.state, request.wait_ms) == ("admitted", 501)


def test_a_tenant_without_a_lease_makes_the_gateway_report_once() -> None:
    gate = obeying(pot=(100, 100))
    ask(gate, 500, "ela")
    assert gate.hurry
    gate.hurry = False
    ask(gate, 600, "ela")
    assert not gate.hurry


def test_a_core_tenant_is_not_refused_while_the_decision_that_answers_it_is_late() -> None:
    #  own time   500 asks      3 500 three intervals      4 200 the third decision comes
    gate = obeying()
    request, hasty = ask(gate, 500, "gua", 10), ask(gate, 500, "gua", 10, timeout_ms=3200)
    give(gate, 1000)
    give(gate, 2000)
    assert gate.serve(3500) == []
    assert gate.serve(3700) == [hasty]
    give(gate, 4200, ("gua", 100, 100, 100))
    assert gate.serve(4200) == []
    assert gate.serve(4201) == [request]
    assert (request.state, request.wait_ms) == ("admitted", 3701)


def test_a_core_tenant_is_refused_when_its_answer_has_flowed_for_an_interval() -> None:
    gate = obeying()
    request = ask(gate, 500, "gua", 10)
    for at_ms in (1000, 2000, 3000):
        give(gate, at_ms, ("gua", 0, 0, 0))
    assert gate.serve(3500) == []
    assert gate.serve(3999) == []
    assert gate.serve(4000) == [request]
    assert reason(request) == "tokens"


def test_late_decisions_are_waited_for_a_leases_life_at_most() -> None:
    gate = obeying(expires_ms=5000)
    request = ask(gate, 500, "gua", 10)
    assert gate.serve(3500) == []
    assert gate.serve(4500) == []
    assert gate.serve(5499) == []
    assert gate.serve(5500) == [request]
    assert reason(request) == "no_lease"


def test_decisions_that_are_made_at_once_to_catch_up_answer_nothing() -> None:
    #  own time   500 asks      5 100 the worker is back, and decides what it has missed
    gate = obeying()
    request = ask(gate, 500, "gua", 10)
    assert gate.serve(3500) == []
    assert gate.serve(4500) == []
    for at_ms in (1000, 2000, 3000, 4000, 5000):
        give(gate, at_ms, ("gua", 0, 0, 0), heard_ms=5100)
    assert gate.serve(6000) == []
    give(gate, 6000, ("gua", 0, 0, 0))
    give(gate, 7000, ("gua", 100, 100, 100))
    assert gate.serve(7001) == [request]
    assert request.state == "admitted"


def test_a_pot_has_sequences_of_its_own_and_they_come_back() -> None:
    gate = obeying(pot=(100, 100), pot_sequences=2, pot_kv_bytes=1000)
    first = ask(gate, 1000, "ela")
    assert ask(gate, 1000, "gua").state == "admitted"
    assert reason(ask(gate, 1000, "spo")) == "sequences"
    settle(gate, first, 1100, 1)
    assert ask(gate, 1100, "spo", kv_bytes=1000).state == "admitted"


def test_a_pot_has_kv_bytes_of_its_own() -> None:
    gate = obeying(pot=(100, 100), pot_kv_bytes=1000)
    assert ask(gate, 1000, "ela", kv_bytes=600).state == "admitted"
    assert reason(ask(gate, 1000, "spo", kv_bytes=600)) == "kv_bytes"
