"""The records that a decision publishes: parts, tombstones, who is barred, the roster (L8, L9)."""

from dataclasses import replace

from tests.pools import ONE, START, pool_with, report, spec, step, tenant
from tokenweir.core.roster import roster
from tokenweir.core.step import Decided, advance, fold
from tokenweir.records.spec import Entitlement, PoolSpec, UserTerms

MINUTE_MS = 60_000


def with_tenants(count: int, rules: PoolSpec | None = None) -> Decided:
    """The second decision of a pool in which so many tenants ask for something."""
    names = [f"t{n:04}" for n in range(count)]
    claims: list[Entitlement] = [tenant(name, "elastic", 1) for name in names]
    pool = pool_with(rules or spec(*claims, capacity=100_000))
    step(pool, report("g", 1, dict.fromkeys(names, 5)), START)
    decided = advance(pool, START + 1_000)
    assert decided is not None
    return decided


def test_up_to_a_thousand_leases_are_one_record() -> None:
    decided = with_tenants(1000)
    assert (decided.decision.parts, len(decided.leases)) == (1, 1)
    assert len(decided.leases[0].tenant) == 1000


def test_more_leases_come_in_parts_that_all_say_how_many_they_are() -> None:
    decided = with_tenants(2500)
    assert decided.decision.parts == 3
    assert [(part.part, part.parts) for part in decided.leases] == [(0, 3), (1, 3), (2, 3)]
    names = [name for part in decided.leases for name in part.tenant]
    assert len(names) == len(set(names)) == 2500
    assert [part.pot_rate > 0 for part in decided.leases] == [True, False, False]
    assert all(list(part.tenant) == sorted(part.tenant) for part in decided.leases)


def test_a_tenants_part_depends_on_its_name_alone() -> None:
    first, second = (
        {name: part.part for part in with_tenants(count).leases for name in part.tenant}
        for count in (2500, 2900)
    )
    assert all(second[name] == part for name, part in first.items())


def test_a_gateway_that_left_gets_a_tombstone_for_each_part_it_ever_had() -> None:
    names = [f"t{n:04}" for n in range(1500)]
    pool = pool_with(spec(*(tenant(name, "elastic", 1) for name in names), capacity=100_000))
    step(pool, report("g", 1, dict.fromkeys(names, 5)), START)
    decided = step(pool, report("g", 2), START + 1_000)
    for second in range(2, 90):  # nobody asks any more: one part is enough again
        assert decided is not None
        some = report("g", second + 1, applied=decided.decision.at_ms)
        decided = step(pool, some, START + second * 1_000)
    assert decided is not None
    assert decided.decision.parts == 1
    fold(pool, report("g", 100, closing=True), START + 89_500)
    last = advance(pool, START + 90_000)
    assert last is not None
    assert last.gone == (("g", 2),)


def test_a_gateway_that_is_silent_longer_than_its_floors_live_gets_tombstones() -> None:
    pool = pool_with(spec(tenant("e", "elastic", 100), floor_ms=2 * MINUTE_MS))
    step(pool, report("g", 1, {"e": 5}), START)
    gone: dict[str, int] = {}
    for second in range(1, 130):
        decided = step(pool, report("h", second), START + second * 1_000)
        assert decided is not None
        gone |= {name: second for name, _ in decided.gone}
    assert gone == {"g": 121}


def test_the_suspended_are_barred_and_told_once() -> None:
    pool = pool_with(spec(tenant("a", "elastic", 1, suspended=True), tenant("b", "elastic", 1)))
    first = advance(pool, START)
    assert first is not None
    assert first.barred is not None
    assert (first.barred.tenant, first.barred.reason) == (["a"], ["suspended"])
    again = advance(pool, START + 1_000)
    assert again is not None
    assert again.barred is None
    fold(pool, spec(tenant("a", "elastic", 1), version=2), START + 1_000)
    back = advance(pool, START + 2_000)
    assert back is not None
    assert back.barred is not None
    assert back.barred.tenant == []


def test_who_can_never_have_a_grant_is_barred() -> None:
    pool = pool_with(spec(tenant("a", "spot", borrow_cap=0), tenant("b", "spot")))
    decided = advance(pool, START)
    assert decided is not None
    assert decided.barred is not None
    assert (decided.barred.tenant, decided.barred.reason) == (["a"], ["no_grant"])


def test_who_asks_and_gets_nothing_is_barred_until_it_gets_something() -> None:
    claims = (tenant("d", "dedicated", 9_000), tenant("s", "spot"), tenant("t", "spot"))
    pool = pool_with(spec(*claims))
    step(pool, report("g", 1, refused={"s": 100}), START)
    full = advance(pool, START + 1_000)
    assert full is not None
    assert full.barred is not None
    assert (full.barred.tenant, full.barred.reason) == (["s"], ["no_grant"])  # t may try the pot
    fold(pool, spec(*claims, version=2, capacity=20_000), START + 1_000)
    room = advance(pool, START + 2_000)
    assert room is not None
    assert room.barred is not None
    assert room.barred.tenant == []


def test_classes_that_the_tier_refuses_need_no_entry() -> None:
    pool = pool_with(spec(tenant("e", "elastic", 9_000), tenant("s", "spot")))
    for second in range(16):
        some = report("g", second + 1, {"e": 9_900}, refused={"s": 500})
        decided = step(pool, some, START + second * 1_000)
    assert decided is not None
    assert decided.decision.tier == "hard_degrade"
    assert decided.decision.priority_threshold == "elastic"
    assert pool.barred == ()


def test_the_roster_has_every_entitled_tenant_when_the_spec_changes() -> None:
    claims = [tenant("b", "spot"), replace(tenant("a", "dedicated", 5), on_silence="refuse")]
    pool = pool_with(spec(*claims))
    decided = advance(pool, START)
    assert decided is not None
    assert decided.roster is not None
    assert decided.roster.tenant == ["a", "b"]
    assert decided.roster.service_class == ["dedicated", "spot"]
    assert decided.roster.on_silence == ["refuse", None]
    again = advance(pool, START + 1_000)
    assert again is not None
    assert again.roster is None


def test_the_decision_says_what_gateways_need_to_know() -> None:
    pool = pool_with(spec(tenant("a", "elastic", 1)))
    decided = advance(pool, START)
    assert decided is not None
    decision = decided.decision
    assert (decision.tier, decision.breaker, decision.mode) == ("normal", "closed", "enforce")
    assert (decision.capacity, decision.interval_ms) == (10_000_000, 1_000)
    assert [state.service_class for state in decision.classes] == [
        "preemptible",
        "spot",
        "elastic",
        "guaranteed",
        "dedicated",
    ]
    assert [state.on_silence for state in decision.classes][:3] == ["refuse", "refuse", "floor"]


def test_all_whom_no_spec_knows_have_one_lease() -> None:
    pool = pool_with(spec(tenant("a", "elastic", 1)))
    step(pool, report("g", 1, {"x": 5, "y": 7}), START)
    decided = advance(pool, START + 1_000)
    assert decided is not None
    assert decided.leases[0].tenant == ["*"]


def test_the_roster_says_where_a_limit_is_raised_where_an_entitlement_does() -> None:
    tagged = replace(tenant("a", "spot"), tags={"raise_limit_url": "https://limits.example/a"})
    for claims, urls in (
        ((tagged, tenant("b", "spot")), ["https://limits.example/a", ""]),
        ((tenant("b", "spot"),), []),
    ):
        decided = advance(pool_with(spec(*claims)), START)
        assert decided is not None
        assert decided.roster is not None
        assert decided.roster.raise_limit == urls


def test_the_roster_tells_the_weights_of_users_that_are_not_1() -> None:
    users = [UserTerms("ann", 2 * ONE, ()), UserTerms("bob", ONE, ())]
    made = roster(spec(tenant("acme", "elastic", 100, users=users), tenant("b", "spot")))
    assert (made.user_tenant, made.user, made.user_weight) == (["acme"], ["ann"], [2 * ONE])
