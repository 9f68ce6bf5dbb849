from dataclasses import replace

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
)
from tokenweir.errors import BadRecord
from tokenweir.gateway.hearing import ControlRecord
from tokenweir.gateway.pool import PoolGate


def acknowledged() -> PoolGate:
    gate = PoolGate(POOL, "edge")
    gate.acknowledged(EPOCH_MS, 0, 0)
    return gate


def test_a_decision_is_obeyed_when_roster_leases_and_decision_are_there_in_any_order() -> None:
    records: list[ControlRecord] = [roster(), leases("edge", ("ela", 10, 10, 10)), decision()]
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]):
        gate = acknowledged()
        for place in order[:2]:
            gate.hear(records[place], 0)
            assert gate.leases.at_ms == 0
        gate.hear(records[order[2]], 0)
        assert gate.leases.at_ms == EPOCH_MS


def test_a_decision_is_obeyed_when_all_its_parts_are_there() -> None:
    gate = acknowledged()
    gate.hear(roster(), 0)
    gate.hear(decision(parts=2), 0)
    gate.hear(leases("edge", ("ela", 10, 10, 10), part=0, parts=2), 0)
    assert gate.leases.at_ms == 0
    gate.hear(leases("edge", ("gua", 10, 10, 10), part=1, parts=2), 0)
    assert admitted(gate, 1000, "ela", 10) == 1
    assert admitted(gate, 1000, "gua", 10) == 1


def test_no_lease_is_obeyed_before_the_first_acknowledgement() -> None:
    gate = PoolGate(POOL, "edge")
    give(gate, 0, ("ela", 10, 10, 10))
    assert reason(ask(gate, 1000, "ela")) == "no_decision"
    gate.acknowledged(EPOCH_MS + 1000, 1000, 1000)
    assert ask(gate, 2000, "ela").state == "admitted"


def test_an_older_or_repeated_record_changes_nothing() -> None:
    gate = obeying(("ela", 10, 10, 0))
    give(gate, 1000, ("ela", 20, 20, 0))
    ask(gate, 2000, "ela", 15)
    level = gate.subjects["ela"].bucket.level
    give(gate, 0, ("ela", 99, 99, 0))
    give(gate, 1000, ("ela", 20, 20, 0))
    assert gate.subjects["ela"].bucket.rate == 20_000
    assert gate.subjects["ela"].bucket.level == level


def test_an_absent_tenant_has_no_lease_any_more() -> None:
    gate = obeying(("ela", 10, 10, 0), ("spo", 10, 10, 0))
    give(gate, 1000, ("ela", 10, 10, 0))
    assert reason(ask(gate, 1500, "spo")) == "no_lease"


def test_a_continuing_renewal_keeps_the_level() -> None:
    gate = obeying(("ela", 10, 10, 0))
    give(gate, 1000, ("ela", 10, 10, 0))
    assert admitted(gate, 1000, "ela", 5) == 2


def test_a_lease_that_was_away_starts_empty() -> None:
    gate = obeying(("ela", 10, 10, 0))
    give(gate, 1000)
    give(gate, 2000, ("ela", 10, 10, 0))
    assert reason(ask(gate, 2000, "ela")) == "tokens"


def test_a_renewal_after_the_expiry_starts_empty() -> None:
    gate = obeying(("spo", 10, 10, 0), expires_ms=3000)
    give(gate, 4000, ("spo", 10, 10, 0))
    assert reason(ask(gate, 4000, "spo")) == "tokens"
    assert ask(gate, 4001, "spo").state == "admitted"


def test_a_decision_for_others_leaves_the_leases_and_brings_its_terms() -> None:
    gate = obeying(("spo", 10, 10, 0))
    gate.hear(decision(1000, priority_threshold="elastic"), 1000)
    assert gate.leases.at_ms == EPOCH_MS
    assert reason(ask(gate, 2000, "spo")) == "priority"


def test_a_record_whose_columns_differ_in_length_is_refused_whole() -> None:
    gate = obeying(("ela", 10, 10, 0))
    bad = replace(leases("edge", ("ela", 10, 10, 0), at_ms=1000), burst=[1, 2])
    with pytest.raises(BadRecord, match="differ in length"):
        gate.hear(bad, 1000)
    assert gate.assembly.parts[0].at_ms == EPOCH_MS


def test_a_new_roster_is_waited_for_and_brings_new_classes() -> None:
    gate = obeying(("ela", 10, 10, 0))
    give(gate, 1000, ("ela", 10, 10, 0), changes={"spec_version": 2})
    assert gate.leases.at_ms == EPOCH_MS
    gate.hear(roster(version=2), 1000)
    assert gate.leases.at_ms == EPOCH_MS + 1000
