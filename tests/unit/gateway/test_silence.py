from typing import Any

from tests.unit.gateway.made import (
    EPOCH_MS,
    POOL,
    admitted,
    ask,
    class_states,
    decision,
    give,
    leases,
    obeying,
    reason,
    roster,
)
from tokenweir.gateway.pool import PoolGate

#  own time   0 ─── lease ─── 3 000 ─── floor ─── 9 000 ─── ended
LIVES: dict[str, Any] = {"expires_ms": 3000, "floor_expires_ms": 9000}


def test_after_the_expiry_a_floor_class_has_its_floor() -> None:
    gate = obeying(("ela", 100, 100, 10), **LIVES)
    assert admitted(gate, 2999, "ela", 10) == 10
    assert admitted(gate, 4000, "ela", 10) == 1
    assert admitted(gate, 8900, "ela", 10) == 1  # no more than an interval of the floor


def test_what_is_left_of_the_lease_is_lost_when_it_expires() -> None:
    gate = obeying(("ela", 100, 100, 10), **LIVES)
    assert reason(ask(gate, 3000, "ela")) == "silent"


def test_what_is_owed_stays_owed_when_it_expires() -> None:
    gate = obeying(("ela", 100, 100, 10), **LIVES)
    ask(gate, 2999, "ela", 130)  # 100 were there
    assert gate.subjects["ela"].bucket.level == -30_100 + 100
    assert reason(ask(gate, 5900, "ela")) == "silent"
    assert ask(gate, 6001, "ela").state == "admitted"


def test_after_the_floor_has_ended_nothing_passes() -> None:
    gate = obeying(("ela", 100, 100, 10), **LIVES)
    assert reason(ask(gate, 9000, "ela")) == "silent"


def test_after_the_expiry_a_refusing_class_has_nothing() -> None:
    gate = obeying(("spo", 100, 100, 10), **LIVES)
    assert ask(gate, 2999, "spo").state == "admitted"
    assert reason(ask(gate, 3001, "spo")) == "silent"


def test_allow_admits_everything_after_the_expiry() -> None:
    gate = PoolGate(POOL, "edge")
    gate.acknowledged(EPOCH_MS, 0, 0)
    gate.hear(roster({"ela": "allow"}), 0)
    gate.hear(leases("edge", ("ela", 1, 1, 0), **LIVES), 0)
    gate.hear(decision(), 0)
    assert admitted(gate, 2999, "ela", 10, most=20) == 1
    assert admitted(gate, 99_000, "ela", 10, most=20) == 20


def test_the_pot_ends_with_the_leases() -> None:
    gate = obeying(pot=(100, 100), **LIVES)
    assert ask(gate, 2999, "ela").state == "admitted"
    assert reason(ask(gate, 3001, "ela")) == "silent"


def test_a_core_tenant_waits_three_intervals_in_silence() -> None:
    gate = obeying(("gua", 10, 10, 0), **LIVES)
    request = ask(gate, 4000, "gua")
    assert request.state == "waiting"
    assert gate.serve(6999) == []
    assert gate.serve(7000) == [request]
    assert reason(request) == "silent"


def test_the_lease_is_back_with_the_next_decision() -> None:
    gate = obeying(("ela", 100, 100, 10), **LIVES)
    ask(gate, 10_000, "ela")
    give(gate, 11_000, ("ela", 100, 100, 10), changes={"classes": class_states()})
    assert admitted(gate, 11_100, "ela", 10) == 1


def test_leases_that_are_restated_with_their_old_expiry_are_not_renewed() -> None:
    gate = obeying(("ela", 100, 100, 10), **LIVES)
    give(gate, 4000, ("ela", 100, 100, 10), **LIVES)
    assert admitted(gate, 5000, "ela", 10) == 1
    give(gate, 5000, ("ela", 100, 100, 10), **LIVES)
    assert reason(ask(gate, 5000, "ela")) == "silent"
    assert admitted(gate, 5500, "ela", 10) == 1


def test_floors_that_are_restated_end_when_they_would_have() -> None:
    gate = obeying(("ela", 100, 100, 10), **LIVES)
    give(gate, 8000, ("ela", 100, 100, 10), **LIVES)
    assert admitted(gate, 8999, "ela", 10) == 1
    assert reason(ask(gate, 9000, "ela")) == "silent"
