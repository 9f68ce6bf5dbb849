"""The emergency brake: break 100 %, margin 5 %, cool-off 10 s doubling to 40 s, errors 10 %."""

from collections.abc import Sequence

import pytest

from tests.pools import ONE, START, ints, pool_with, ppm, report, spec, step, tenant
from tokenweir.core.breaker import (
    CLOSED,
    BreakerState,
    Outcomes,
    Pressure,
    ended,
    failing,
    narrowed,
    next_breaker,
    probe_rate,
)
from tokenweir.core.pool import Pool
from tokenweir.core.step import Decided, advance, fold
from tokenweir.records.control import Breaker, ControlDecision
from tokenweir.records.journal import AuditEntry, DecisionEntry
from tokenweir.records.spec import BreakerTerms, TierTerms
from tokenweir.records.usage import CapacityReport

TERMS = BreakerTerms("borrowers", 10_000, 40_000, ppm(0.05), ppm(0.1))
TIERS = TierTerms(ppm(0.7), ppm(0.9), ONE, ppm(0.05), 2, 10_000)


def run(
    percents: Sequence[float], state: BreakerState = CLOSED, errors: Sequence[float] = ()
) -> list[BreakerState]:
    """The breaker after each decision, one a second, at these total levels and error rates."""
    seen = []
    for second, percent in enumerate(percents):
        failed = errors[second] if errors else 0
        pressure = Pressure(round(percent * 10_000), round(failed * 10_000))
        state = next_breaker(state, pressure, TERMS, TIERS, second * 1000)
        seen.append(state)
    return seen


def names(states: Sequence[BreakerState]) -> list[Breaker]:
    return [state.breaker for state in states]


def changes(states: Sequence[BreakerState]) -> list[tuple[int, Breaker]]:
    """Second and name of each change."""
    found: list[tuple[int, Breaker]] = []
    before: Breaker = "closed"
    for second, name in enumerate(names(states)):
        if name != before:
            found.append((second, name))
        before = name
    return found


def test_it_opens_when_total_use_has_held_the_budget_for_two_decisions() -> None:
    assert names(run([100, 99, 100, 100])) == ["closed", "closed", "closed", "open"]


def test_a_pool_in_full_use_of_its_grants_never_opens_it() -> None:
    assert set(names(run([95] * 600))) == {"closed"}


def test_it_goes_through_half_open_and_closes_after_as_long_again() -> None:
    #  0 s, 1 s: 110   then 80   open until 11 s   half open until 21 s
    assert changes(run([110, 110, *[80] * 30])) == [(1, "open"), (11, "half_open"), (21, "closed")]


def test_it_stays_open_while_the_level_is_not_below_the_margin() -> None:
    assert changes(run([110, 110, *[95] * 30, *[94] * 3])) == [(1, "open"), (32, "half_open")]


def test_a_relapse_while_half_open_doubles_the_cool_off_up_to_the_longest() -> None:
    # Every probe brings the level back: 10 s, 20 s, 40 s, 40 s.
    opened, state, levels = [], CLOSED, 110.0
    for second in range(200):
        state = next_breaker(state, Pressure(ppm(levels / 100), 0), TERMS, TIERS, second * 1000)
        levels = 80 if state.breaker == "open" else 110
        opened.append(state)
    cool_offs = [state.cool_off_ms for state in opened if state.breaker == "half_open"]
    assert sorted({*cool_offs}) == [10_000, 20_000, 40_000]


def test_failing_probes_open_it_again() -> None:
    states = run([110, 110, *[80] * 15], errors=[0] * 13 + [11, 11, 0, 0])
    assert changes(states) == [(1, "open"), (11, "half_open"), (14, "open")]
    assert states[-1].cool_off_ms == 20_000


def test_one_decision_with_many_errors_is_no_relapse() -> None:
    assert names(run([110, 110, *[80] * 12], errors=[0] * 13 + [50]))[-1] == "half_open"


def test_after_it_has_been_closed_for_its_last_cool_off_it_begins_anew() -> None:
    just_closed = BreakerState("closed", 0, 0, 20_000)
    early = run([80] * 11 + [110] * 2, just_closed)
    late = run([80] * 20 + [110] * 2, just_closed)
    assert (early[-1].breaker, early[-1].cool_off_ms) == ("open", 40_000)
    assert (late[-1].breaker, late[-1].cool_off_ms) == ("open", 10_000)


def test_it_stays_closed_for_a_dwell() -> None:
    assert changes(run([110] * 20, BreakerState("closed", 0, 0, 0))) == [(10, "open")]


def test_the_errors_are_those_of_requests_that_ended() -> None:
    some = ended(Outcomes(), 20, 3, 1000, ONE, 0)
    assert failing(some) == 150_000
    assert failing(ended(some, 0, 0, 1000, ppm(0.3), 2)) == pytest.approx(150_000, rel=0.01)
    assert failing(ended(Outcomes(), 0, 0, 1000, ONE, 0)) == 0
    assert failing(ended(Outcomes(), 1, 5, 1000, ONE, 0)) == ONE


def test_open_leaves_the_floors_or_nothing() -> None:
    tier = ints(0, 1, 2, 3)
    assert narrowed("closed", "borrowers", tier).tolist() == [0, 1, 2, 3]
    assert narrowed("open", "borrowers", tier).tolist() == [2, 2, 2, 3]
    assert narrowed("half_open", "all", tier).tolist() == [3, 3, 3, 3]


def test_probes_are_a_part_of_the_capacity_as_far_as_there_is_room() -> None:
    assert probe_rate("open", TERMS, 10_000, 9_000) == 0
    assert probe_rate("half_open", TERMS, 10_000, 9_000) == 500
    assert probe_rate("half_open", TERMS, 10_000, 300) == 300
    assert probe_rate("half_open", TERMS, 10_000, -5) == 0
    assert probe_rate("half_open", TERMS, 0, 0) == 0


# The whole pool: 10 000 tokens/s, one gateway that does not enforce.
CORE = tenant("core", "guaranteed", 3_000)
TEAM = tenant("team", "elastic", 2_000)
LOW = tenant("low", "spot")


class Runaway:
    """A gateway that reports whatever it is told to, a second at a time."""

    def __init__(self, pool: Pool) -> None:
        self.pool, self.sent = pool, 0

    def second(self, out: dict[str, int], refused: dict[str, int] | None = None) -> Decided:
        self.sent += 1
        at_ms = START + self.sent * 1000
        message = report("g", self.sent, out, refused=refused, applied=self.pool.boundary_ms)
        decided = step(self.pool, message, at_ms)
        assert decided is not None
        return decided

    def until(self, breaker: Breaker, out: dict[str, int], most: int = 300) -> list[Decided]:
        """All decisions up to the first in which the breaker is in this state."""
        seen = []
        for _ in range(most):
            seen.append(self.second(out, {"team": 2_000, "low": 2_000}))
            if seen[-1].decision.breaker == breaker:
                return seen
        raise AssertionError(f"the breaker is {seen[-1].decision.breaker} and not {breaker}")


def grants(decided: Decided) -> dict[str, int]:
    entry = decided.entries[0].body
    assert isinstance(entry, DecisionEntry)
    return dict(zip(entry.tenants.tenant, entry.tenants.grant, strict=True))


def audits(decided: Decided, kind: str) -> list[AuditEntry]:
    bodies = [entry.body for entry in decided.entries]
    return [body for body in bodies if isinstance(body, AuditEntry) and body.kind == kind]


def within(decision: ControlDecision) -> bool:
    """Grants, probes among them, and pots fit under the ceiling of the capacity."""
    return decision.granted + decision.capacity // 20 <= decision.capacity * 95 // 100


OVER = {"core": 3_000, "team": 5_000, "low": 4_000}
CALM = {"core": 3_000, "team": 1_000}


def test_lost_capacity_opens_it_and_when_use_has_fallen_it_closes_again() -> None:
    gateway = Runaway(pool_with(spec(CORE, TEAM, LOW)))
    assert gateway.second({"core": 3_000, "team": 4_000}).decision.breaker == "closed"
    fold(gateway.pool, CapacityReport("chat", "x", 6_000_000, None, None), START + 1_000)
    opened = gateway.until("open", {"core": 3_000, "team": 4_000})
    now = opened[-1].decision
    assert (now.tier, now.probe_rate, now.breaker_refuses) == ("circuit_break", 0, "borrowers")
    assert grants(opened[-1])["core"] == 3_000_000  # the floors of the core pass
    assert grants(opened[-1])["team"] == 2_000_000
    assert grants(opened[-1])["low"] == 0
    half = gateway.until("half_open", CALM)
    now = half[-1].decision
    assert (now.tier, now.probe_rate) == ("circuit_break", 300_000)
    assert now.granted <= 5_000_000 + now.probe_rate
    closed = gateway.until("closed", CALM)
    assert (closed[-1].decision.tier, closed[-1].decision.probe_rate) == ("hard_degrade", 0)
    later = [gateway.second({"core": 1_000}).decision.tier for _ in range(90)]
    assert [later[0], later[-1]] == ["hard_degrade", "normal"]  # it follows the level again
    assert all(within(each.decision) for each in (*opened[3:], *half, *closed))


def test_what_borrowed_is_told_with_the_figures() -> None:
    gateway = Runaway(pool_with(spec(CORE, TEAM, LOW)))
    opened = gateway.until("open", OVER)
    (audit,) = audits(opened[-1], "breaker")
    assert (audit.before, audit.after, audit.subject) == ("closed", "open", "chat")
    assert audit.lost == ["low", "team"]
    assert audit.amount > 0
    assert "the total level is 1" in audit.why
    assert "at least 100.0 % for 2 decisions; it stays open for 10 s" in audit.why
    (tier,) = audits(opened[-1], "tier")
    assert tier.after == "circuit_break"
    assert "the breaker is open" in tier.why
    (audit,) = audits(gateway.until("half_open", CALM)[-1], "breaker")
    assert "tokens/s may probe" in audit.why
    (audit,) = audits(gateway.until("closed", CALM)[-1], "breaker")
    assert audit.why.endswith("low for the probe time")


def test_with_all_nothing_is_granted_while_open_and_only_probes_while_half_open() -> None:
    terms = BreakerTerms("all", 10_000, 40_000, ppm(0.05), ppm(0.1))
    gateway = Runaway(pool_with(spec(CORE, TEAM, LOW, breaker=terms)))
    opened = gateway.until("open", OVER)
    assert (opened[-1].decision.granted, opened[-1].decision.breaker_refuses) == (0, "all")
    half = gateway.until("half_open", {"core": 100})
    assert 0 < half[-1].decision.granted <= half[-1].decision.probe_rate == 500_000


def test_the_journal_has_the_level_of_all_use() -> None:
    gateway = Runaway(pool_with(spec(CORE, TEAM, LOW)))
    gateway.second({"team": 2_000, "low": 8_000})
    decided = gateway.second({})
    entry = decided.entries[0].body
    assert isinstance(entry, DecisionEntry)
    # 2 000 and 10 000 of the 30 000 tokens of three seconds, smoothed: 0.3 of it.
    assert (decided.decision.level, entry.total) == (19_999, 100_000)


def test_without_capacity_any_use_opens_it_and_none_closes_it() -> None:
    """What a pool without capacity does is defined: full as soon as anything is used."""
    gateway = Runaway(pool_with(spec(CORE, TEAM, LOW, capacity=0)))
    opened = gateway.until("open", {"core": 1})
    assert opened[-1].decision.granted == 0
    gateway.until("half_open", {})
    assert gateway.until("closed", {})[-1].decision.probe_rate == 0


def test_a_silent_pool_closes_it_by_time_alone() -> None:
    gateway = Runaway(pool_with(spec(CORE, TEAM, LOW)))
    gateway.until("open", OVER)
    end = START + gateway.sent * 1000
    seen = [advance(gateway.pool, end + after) for after in (120_000, 240_000)]
    assert [each and each.decision.breaker for each in seen] == ["half_open", "closed"]
