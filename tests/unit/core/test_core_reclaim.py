"""Owners come back: who gives how much, and how fast (DESIGN, decision 7)."""

import math
from collections.abc import Mapping

import pytest

from tests.pools import START, pool_with, report, spec, step, tenant
from tokenweir.core.breaker import BreakerState
from tokenweir.core.pool import Pool
from tokenweir.core.step import Decided
from tokenweir.records.journal import AuditEntry, DecisionEntry, TenantFigures


class Run:
    """A pool with one gateway that obeys at once; each interval the tenants ask for so much."""

    def __init__(self, pool: Pool) -> None:
        self.pool, self.sequence, self.at_ms, self.applied = pool, 0, START, 0

    def ask(self, asked: Mapping[str, int]) -> Decided:
        """One interval in which each tenant is refused so many tokens; the decision after it."""
        self.sequence += 1
        step(
            self.pool,
            report("g", self.sequence, refused=asked, applied=self.applied),
            self.at_ms + 500,
        )
        self.at_ms += 1000
        decided = step(self.pool, report("h", self.sequence), self.at_ms)
        assert decided is not None
        self.applied = decided.decision.at_ms
        return decided


def figures(decided: Decided) -> TenantFigures:
    body = decided.entries[0].body
    assert isinstance(body, DecisionEntry)
    return body.tenants


def grants(decided: Decided) -> dict[str, int]:
    found = figures(decided)
    return dict(zip(found.tenant, found.grant, strict=True))


def audits(decided: Decided, kind: str) -> list[AuditEntry]:
    bodies = [entry.body for entry in decided.entries]
    return [body for body in bodies if isinstance(body, AuditEntry) and body.kind == kind]


def lent(*, owner: str, borrower: str) -> Run:
    """A pool of 10 000 whose borrower has had everything that its owner leaves."""
    reserved = 0 if borrower in ("spot", "preemptible") else 1_000
    tenants = (tenant("owner", owner, 5_000), tenant("taker", borrower, reserved))  # type: ignore[arg-type]  # literals
    run = Run(pool_with(spec(*tenants, ceiling=1.0, pots=0.0, alpha=1.0)))
    for _ in range(12):
        run.ask({"taker": 20_000})
    return run


BOTH = {"owner": 5_000, "taker": 20_000}


def test_an_elastic_owner_gets_at_most_beta_of_what_is_borrowed_at_each_decision() -> None:
    """Borrowed 9 000, to be 4 000: 0.7 of the remainder each time, the floor gets the rest."""
    run = lent(owner="elastic", borrower="elastic")
    found = [grants(run.ask(BOTH)) for _ in range(4)]
    assert [one["taker"] for one in found] == [7_300_000, 5_410_000, 5_000_000, 5_000_000]
    assert [one["owner"] for one in found] == [2_700_000, 4_590_000, 5_000_000, 5_000_000]


def test_it_has_its_floor_back_within_the_decisions_that_beta_needs() -> None:
    run = lent(owner="elastic", borrower="elastic")
    most = math.ceil(math.log(0.05) / math.log(0.7))
    assert any(grants(run.ask(BOTH))["owner"] == 5_000_000 for _ in range(most))


@pytest.mark.parametrize("owner", ["dedicated", "guaranteed"])
def test_a_core_floor_waits_for_no_beta(owner: str) -> None:
    run = lent(owner=owner, borrower="elastic")
    assert grants(run.ask(BOTH))["owner"] == 5_000_000


@pytest.mark.parametrize("borrower", ["spot", "preemptible"])
def test_what_spot_and_preemptible_have_is_taken_at_once(borrower: str) -> None:
    run = lent(owner="elastic", borrower=borrower)
    assert grants(run.ask(BOTH)) == {"owner": 5_000_000, "taker": 5_000_000}


def test_after_a_reclaim_the_borrower_rests_for_the_cool_down() -> None:
    """The owner asks for half, later for all: the second reclaim waits for five seconds."""
    run = lent(owner="elastic", borrower="elastic")
    half = {"owner": 2_000, "taker": 20_000}
    while grants(run.ask(half))["owner"] < 2_000_000:
        pass
    last = run.at_ms
    run.ask(half)
    while grants(run.ask(BOTH))["owner"] == 2_000_000:
        pass
    assert run.at_ms - last == 5_000


def test_who_gained_from_another_is_not_reclaimed_from_within_the_cool_down() -> None:
    tenants = (tenant("a", "elastic", 5_000), tenant("b", "elastic", 5_000))
    run = Run(pool_with(spec(*tenants, ceiling=1.0, pots=0.0, alpha=1.0)))
    for _ in range(12):
        run.ask({"b": 20_000})
    gained = lost = 0
    for _ in range(30):  # a takes from b what b has borrowed, and borrows itself; then b comes back
        decided = run.ask({"a": 20_000, "b": 3_000 if run.at_ms < START + 20_000 else 5_000})
        for entry in audits(decided, "reclaim"):
            gained = run.at_ms if "a" in entry.gained else gained
            lost = run.at_ms if "a" in entry.lost else lost
            assert "a" not in entry.lost or run.at_ms - gained >= 5_000
    assert gained
    assert lost


def test_a_reclaim_is_audited_with_who_lost_who_gained_and_how_much() -> None:
    run = lent(owner="elastic", borrower="elastic")
    (entry,) = audits(run.ask(BOTH), "reclaim")
    assert (entry.lost, entry.gained) == (["taker"], ["owner"])
    assert (entry.amount, entry.unit) == (2_700_000, "milli-tokens/s")
    assert (entry.before, entry.after) == ("9000000", "6300000")


def test_what_borrowers_keep_and_what_waits_for_owners_fit_together() -> None:
    """The owner comes back for half of its floor; the other half waits for it as far as it fits."""
    run = Run(pool_with(spec(tenant("owner", "elastic", 9_000), tenant("taker", "elastic"))))
    for _ in range(12):
        run.ask({"taker": 20_000})
    found = grants(run.ask({"owner": 4_500, "taker": 20_000}))
    assert found == {"owner": 3_960_000, "taker": 5_040_000}  # of 9 000 that may be granted


@pytest.mark.parametrize("limits", [{"share_caps": {"elastic": 0.6}}, {"alphas": {"elastic": 0.5}}])
def test_a_cap_of_the_class_takes_no_more_than_beta_while_owners_come_back(
    limits: Mapping[str, Mapping[str, float]],
) -> None:
    two = (tenant("owner", "elastic", 5_000), tenant("taker", "elastic", 1_000))
    run = Run(pool_with(spec(*two, ceiling=1.0, pots=0.0, alpha=1.0, **limits)))  # type: ignore[arg-type]  # two of its names
    for _ in range(12):
        lent = figures(run.ask({"taker": 20_000})).borrowed[-1]
    back = figures(run.ask({"owner": 5_000, "taker": 20_000})).borrowed[-1]
    assert back >= lent * 7 // 10


def test_who_may_not_borrow_any_more_keeps_nothing_of_an_owner() -> None:
    run = lent(owner="elastic", borrower="elastic")
    run.pool.breaker = BreakerState("half_open", run.at_ms, 0, 60_000)
    found = figures(run.ask({"owner": 5_000, "taker": 20_000}))
    assert dict(zip(found.tenant, found.floor, strict=True))["owner"] == 5_000_000


def test_a_loan_that_becomes_the_floor_of_the_same_tenant_is_not_lost() -> None:
    """b has borrowed where its floor does not fit; when it fits again, nobody is reclaimed from."""
    two = (tenant("a", "elastic", 8_000), tenant("b", "elastic", 6_000))
    run = Run(pool_with(spec(*two, ceiling=1.0, pots=0.0, alpha=1.0)))
    for asked in ({"b": 20_000}, {"a": 9_000, "b": 20_000}, {"b": 20_000}):
        for _ in range(4):
            told = audits(run.ask(asked), "reclaim")
            assert all("b" not in each.lost or "b" not in each.gained for each in told)
