from dataclasses import replace
from typing import Any

import pytest

from tests.unit.gateway.made import (
    admitted,
    ask,
    barred,
    class_states,
    give,
    obeying,
    reason,
    roster,
    settle,
)


def test_100_requests_of_1000_against_10_000_admit_exactly_10() -> None:
    gate = obeying(("ela", 10_000, 10_000, 0))
    states = [ask(gate, 1000, "ela", 1000).state for _ in range(100)]
    assert states.count("admitted") == 10


def test_one_request_may_overdraw_and_is_paid_back_first() -> None:
    gate = obeying(("ela", 1000, 1000, 0))
    request = ask(gate, 1000, "ela", 1200)
    assert request.state == "admitted"
    refused = ask(gate, 1000, "ela", 1)
    assert reason(refused) == "tokens"
    assert refused.denial is not None
    assert refused.denial.retry_ms == 201
    assert ask(gate, 1200, "ela", 1).state != "admitted"
    assert ask(gate, 1201, "ela", 1).state == "admitted"


def test_the_order_is_state_threshold_occupancy_quota_lease() -> None:
    spent = [("spo", "", "d", 0, 60_000, 0)]
    gate = obeying(("spo", 0, 0, 0), sequences=0, ceilings=spent)
    gate.hear(barred(0, ("spo", "revoked", 0)), 0)
    low = {"priority_threshold": "elastic"}
    give(gate, 1000, ("spo", 0, 0, 0), sequences=0, ceilings=spent, changes=low)
    assert reason(ask(gate, 1500, "spo")) == "revoked"
    gate.hear(barred(1000), 1500)
    assert reason(ask(gate, 1500, "spo")) == "priority"
    give(gate, 2000, ("spo", 0, 0, 0), sequences=0, ceilings=spent)
    assert reason(ask(gate, 2500, "spo")) == "sequences"
    give(gate, 3000, ("spo", 0, 0, 0), ceilings=spent)
    assert reason(ask(gate, 3500, "spo")) == "quota"
    give(gate, 4000, ("spo", 0, 0, 0))
    assert reason(ask(gate, 4500, "spo")) == "tokens"


@pytest.mark.parametrize(
    ("tenant", "changes", "expected"),
    [
        ("ela", {"classes": class_states(elastic={"action": "refuse"})}, "class_refused"),
        ("ela", {"classes": class_states(elastic={"action": "limit"})}, "admitted"),
        ("spo", {"breaker": "open", "tier": "circuit_break"}, "breaker"),
        ("ela", {"breaker": "open", "tier": "circuit_break"}, "admitted"),
        ("ela", {"breaker": "open", "breaker_refuses": "all"}, "breaker"),
        ("ela", {"breaker": "half_open", "breaker_refuses": "all"}, "breaker"),
        ("ela", {"breaker": "half_open"}, "admitted"),
    ],
)
def test_actions_and_breaker_are_obeyed(
    tenant: str, changes: dict[str, Any], expected: str
) -> None:
    floor = 10 if tenant == "ela" else 0
    gate = obeying((tenant, 100, 100, floor), changes=changes)
    assert reason(ask(gate, 1000, tenant)) == expected


def test_floor_only_leaves_a_class_its_floor_at_once() -> None:
    gate = obeying(("ela", 100, 100, 10))
    only = {"classes": class_states(elastic={"action": "floor_only"})}
    give(gate, 1000, ("ela", 100, 100, 10), changes=only)
    assert admitted(gate, 1000, "ela", 1) == 10
    assert reason(ask(gate, 1000, "ela")) == "floor_only"


def test_half_open_lets_this_gateways_share_of_the_probes_pass() -> None:
    # This gateway has 100 of 1 000 tokens/s granted: 10 of 100 tokens/s of probes.
    half_open = {"breaker": "half_open", "probe_rate": 100_000, "granted": 1_000_000}
    gate = obeying(("spo", 100, 100, 0), changes=half_open)
    assert admitted(gate, 1000, "spo", 1) == 10
    assert reason(ask(gate, 1000, "spo")) == "breaker"


def test_sequences_and_kv_bytes_are_free_again_when_a_request_ends() -> None:
    gate = obeying(("ela", 1000, 1000, 0), sequences=2, kv_bytes=100)
    first = ask(gate, 1000, "ela", kv_bytes=60)
    assert reason(ask(gate, 1000, "ela", kv_bytes=60)) == "kv_bytes"
    second = ask(gate, 1000, "ela", kv_bytes=40)
    assert second.state == "admitted"
    assert reason(ask(gate, 1000, "ela")) == "sequences"
    settle(gate, first, 1000, 1)
    assert ask(gate, 1000, "ela").state == "admitted"


def test_shadow_mode_admits_everything_and_counts_what_it_would_have_done() -> None:
    gate = obeying(("ela", 10, 10, 0), changes={"mode": "shadow"})
    assert admitted(gate, 1000, "ela", 10, most=5) == 5
    assert admitted(gate, 1000, "spo", 10, most=5) == 5
    assert gate.subjects["ela"].would_refuse == {"tokens": 4}
    assert gate.subjects["spo"].would_refuse == {"no_lease": 5}
    assert gate.subjects["ela"].refused == {}


def test_a_refusal_names_the_decision_it_was_taken_under() -> None:
    gate = obeying(("ela", 10, 10, 0))
    give(gate, 1000)
    ask(gate, 1500, "ela")
    assert gate.decision_id == "chat@1001000"
    assert gate.rows[-1][22] == 1_001_000


def test_what_a_tenant_that_left_still_runs_is_part_of_the_unknowns_limit() -> None:
    gate = obeying(("ela", 100, 100, 0), ("*", 100, 100, 0), sequences=3)
    left = [ask(gate, 1000, "ela") for _ in range(2)]
    kept = roster(version=2)
    places = [n for n, name in enumerate(kept.tenant) if name != "ela"]
    gate.hear(
        replace(
            kept,
            tenant=[kept.tenant[n] for n in places],
            service_class=[kept.service_class[n] for n in places],
            on_silence=[kept.on_silence[n] for n in places],
        ),
        1500,
    )
    give(gate, 2000, ("*", 100, 100, 0), sequences=3, changes={"spec_version": 2})
    assert ask(gate, 3000, "stranger").state == "admitted"
    assert reason(ask(gate, 3000, "stranger")) == "sequences"
    settle(gate, left[0], 3100, 1)
    assert ask(gate, 3100, "another").state == "admitted"
