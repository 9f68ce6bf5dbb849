"""The slow loop: limits of tenants, α, trials that are undone, and what the audit tells."""

from dataclasses import replace

import numpy as np

from tests.pools import ONE, START, ints, pool_with, ppm, report, spec, step, tenant
from tokenweir.core.alpha import PoolLooked, TuningState, next_alpha, tuned
from tokenweir.core.limits import Bounds, Limits, Looked, next_limits
from tokenweir.core.pool import Pool
from tokenweir.core.step import Decided, fold
from tokenweir.core.tuning import limited
from tokenweir.records.journal import AuditEntry, DecisionEntry
from tokenweir.records.spec import PoolSpec, Quota, TuningTerms
from tokenweir.rows import from_rows, to_rows
from tokenweir.spec.zones import zone_of

MINUTE = 60_000
FRESH = Limits(*(ints(0) for _ in range(6)))
BOUNDS = Bounds(ints(ONE // 2), 2 * ONE, 5 * MINUTE)
LOOP = TuningTerms(MINUTE, 5 * MINUTE, 0, ppm(0.95), 2 * ONE)


def seen(
    refused: float = 0,
    used: float = 0.5,
    waited: float = 0,
    rate: float = 100,
    *,
    limited_: bool = True,
) -> Looked:
    """What a look sees of one tenant: parts of its requests, its limit and its SLO; tokens/s."""
    return Looked(
        refused=ints(ppm(refused)),
        waited=ints(ppm(waited)),
        used=ints(ppm(used)),
        rate=ints(int(rate * 1000)),
        limited=np.array([limited_]),
    )


def looks(*each: Looked, since: Limits = FRESH, every_ms: int = MINUTE) -> list[float]:
    """The factor after each look."""
    now, found = since, []
    for place, one in enumerate(each):
        now = next_limits(now, one, BOUNDS, START + place * every_ms)
        found.append(int(now.limit[0]) / ONE)
    return found


def test_refusals_long_waits_and_high_use_raise_a_limit_by_a_fifth() -> None:
    assert looks(seen(refused=0.05)) == [1.2]
    assert looks(seen(waited=1.0)) == [1.2]
    assert looks(seen(used=0.9)) == [1.2]
    assert looks(seen(refused=0.04, waited=0.9, used=0.89)) == [1]


def test_low_use_lowers_it_by_a_tenth_but_not_of_who_is_refused() -> None:
    assert looks(seen(used=0.19)) == [0.9]
    assert looks(seen(used=0.2)) == [1]
    assert looks(seen(used=0.1, refused=0.5)) == [1.2]


def test_who_has_no_limit_or_asked_for_nothing_is_left_alone() -> None:
    assert looks(seen(refused=1, limited_=False)) == [1]
    assert looks(seen(used=0, limited_=False)) == [1]


def test_what_was_changed_is_left_alone_for_the_cool_down() -> None:
    helps = [seen(refused=0.5 - place / 25) for place in range(7)]
    assert looks(*helps) == [1.2, 1.2, 1.2, 1.2, 1.2, 1.44, 1.44]


def test_a_raise_that_did_not_help_is_undone_and_not_tried_until_refusals_have_moved() -> None:
    same = [seen(refused=0.5)] * 3
    assert looks(*same, every_ms=6 * MINUTE) == [1.2, 1, 1]
    moved = [*same, seen(refused=0.59), seen(refused=0.6)]
    assert looks(*moved, every_ms=6 * MINUTE) == [1.2, 1, 1, 1, 1.2]


def test_a_cut_after_which_requests_are_refused_is_undone() -> None:
    after = [
        seen(used=0.1),
        seen(used=0.11, refused=0.06),
        seen(used=0.1),
        seen(used=0.1, rate=125),
    ]
    assert looks(*after, every_ms=6 * MINUTE) == [0.9, 1, 1, 0.9]


def test_limits_stay_within_their_bounds() -> None:
    low = [seen(used=0.01)] * 12
    assert looks(*low, every_ms=6 * MINUTE)[-1] == 0.5
    high = [seen(refused=1 / (place + 1)) for place in range(12)]
    assert looks(*high, every_ms=6 * MINUTE)[-1] == 2


def alpha_of(rules: PoolSpec, *each: PoolLooked, every_ms: int = 6 * MINUTE) -> list[list[float]]:
    """The α of elastic, of spot and of the pool after each look."""
    state, found = TuningState(), []
    for place, one in enumerate(each):
        state = next_alpha(state, one, rules, START + place * every_ms)
        spot, elastic, pool = (state.alphas[at] / ONE for at in (1, 2, 5))
        found.append([elastic, spot, pool])
    return found


RULES = spec(tuning=LOOP, alpha=0.8, alphas={"spot": 0.5, "elastic": 0.6})
HUNGRY = PoolLooked(ppm(0.3), ppm(0.2), ppm(0.4))


def test_alpha_rises_a_step_while_capacity_idles_and_demand_is_refused() -> None:
    fed = PoolLooked(ppm(0.4), ppm(0.04), ppm(0.3))
    assert alpha_of(RULES, HUNGRY, fed, fed) == [[0.6, 0.5, 0.85]] * 3
    busy = PoolLooked(ppm(0.3), ppm(0.2), ppm(0.05))
    assert alpha_of(RULES, busy) == [[0.6, 0.5, 0.8]]


def test_alpha_falls_a_step_when_the_level_rises_the_lowest_class_first() -> None:
    high = [PoolLooked(ppm(0.85 - place / 50), 0, 0) for place in range(5)]
    assert alpha_of(RULES, *high) == [
        [0.6, 0.45, 0.8],
        [0.6, 0.45, 0.8],  # on trial: it helped
        [0.6, 0.4, 0.8],
        [0.6, 0.4, 0.8],
        [0.6, 0.35, 0.8],
    ]
    bare = spec(tuning=LOOP)
    state = next_alpha(TuningState(), high[0], bare, START)
    assert state.alphas == (-1, -1, -1, -1, -1, ppm(0.75))


def test_an_alpha_that_did_not_help_goes_back_and_stays() -> None:
    assert alpha_of(RULES, *[HUNGRY] * 5) == [[0.6, 0.5, 0.85], *[[0.6, 0.5, 0.8]] * 4]
    level = PoolLooked(ppm(0.8), 0, 0)
    assert alpha_of(RULES, *[level] * 5) == [[0.6, 0.45, 0.8], *[[0.6, 0.5, 0.8]] * 4]
    crowded = PoolLooked(ppm(0.66), ppm(0.01), ppm(0.2))
    assert alpha_of(RULES, HUNGRY, crowded)[-1] == [0.6, 0.5, 0.8]


def test_alpha_keeps_to_its_bounds() -> None:
    narrow = replace(RULES, tuning=TuningTerms(MINUTE, 0, ppm(0.48), ppm(0.82), ONE))
    assert alpha_of(narrow, HUNGRY)[-1] == [0.6, 0.5, 0.82]
    assert alpha_of(narrow, PoolLooked(ppm(0.8), 0, 0))[-1] == [0.6, 0.48, 0.8]


def test_the_tuned_alpha_stands_in_the_place_of_the_specs() -> None:
    state = TuningState(alphas=(-1, 400_000, 600_000, -1, -1, 700_000))
    now = tuned(RULES, state)
    assert (now.alpha, [one.alpha for one in now.classes]) == (
        700_000,
        [None, 400_000, 600_000, None, None],
    )
    assert tuned(RULES, TuningState()) is RULES


def test_a_tuned_limit_is_a_factor_of_the_borrow_cap() -> None:
    pool = pool_with(spec(tenant("a", "elastic", 1_000, borrow_cap=500), tenant("b", "spot")))
    step(pool, report("g", 1), START)
    limit = ints(0, 1_200_000, 500_000)
    assert limited(pool.terms, limit).borrow_cap.tolist() == [10**13, 600_000, 10**13]
    assert limited(pool.terms, ints(0, 0, 0)) is pool.terms


# A whole pool: `team` may borrow 500 and asks for 3 000 tokens/s, in requests of 100 tokens.
FAST = TuningTerms(5_000, 20_000, 0, ppm(0.95), 2 * ONE)
TEAM = tenant("team", "elastic", 1_000, borrow_cap=500)
OWNER = tenant("owner", "guaranteed", 4_000)


def second(pool: Pool, at_s: int, spent: int, refused: int) -> Decided:
    message = report("g", at_s, {"team": spent}, refused={"team": refused})
    totals = replace(message.totals, requests=[spent // 100], refused=[refused // 100])
    decided = step(pool, replace(message, totals=totals), START + at_s * 1000)
    assert decided is not None
    return decided


def tuning(decided: Decided) -> list[AuditEntry]:
    bodies = [entry.body for entry in decided.entries]
    return [body for body in bodies if isinstance(body, AuditEntry) and body.kind == "tuning"]


def refused_for(pool: Pool, seconds: int, first: int = 1) -> list[AuditEntry]:
    """A team that spends what it is granted and is refused the rest."""
    found, grant = [], 1_500
    for at_s in range(first, first + seconds):
        decided = second(pool, at_s, min(grant, 3_000), max(3_000 - grant, 0))
        grant = int(pool.tally.grant[pool.terms.index["team"]]) // 1000
        found += tuning(decided)
    return found


def test_a_look_tells_in_the_audit_what_it_changed_and_why() -> None:
    pool = pool_with(spec(TEAM, OWNER, tuning=FAST))
    alpha, limit = refused_for(pool, 8)
    assert (alpha.subject, alpha.before, alpha.after) == ("alpha", "0.8", "0.85")
    assert (limit.subject, limit.gained, limit.lost) == ("team", ["team"], [])
    assert (limit.before, limit.after, limit.amount) == ("1", "1.2", 200_000)
    assert "60.0 % of requests refused and 80.0 % of the limit used" in limit.why
    assert pool.tally.grant[pool.terms.index["team"]] == 1_600_000


def test_the_decision_says_the_tuned_alpha() -> None:
    pool = pool_with(spec(TEAM, OWNER, tuning=FAST))
    refused_for(pool, 8)
    assert second(pool, 9, 0, 0).decision.alpha == 850_000


def test_without_tuning_nothing_is_counted_or_changed() -> None:
    pool = pool_with(spec(TEAM, OWNER))
    assert refused_for(pool, 20) == []
    assert pool.tally.looked_ended.sum() == pool.tally.limit.sum() == 0


def test_what_is_tuned_survives_a_restart_and_goes_on() -> None:
    pool = pool_with(spec(TEAM, OWNER, tuning=FAST))
    refused_for(pool, 8)
    again = from_rows(to_rows(pool))
    assert again.tuning == pool.tuning
    assert refused_for(again, 30, 9) == refused_for(pool, 30, 9)


def test_a_spec_that_changes_a_limit_or_alpha_begins_anew_and_another_does_not() -> None:
    pool = pool_with(rules := spec(TEAM, OWNER, tuning=FAST))
    refused_for(pool, 8)
    place = pool.terms.index["team"]
    same = replace(rules, version=2, replaces=1, mode="shadow")
    fold(pool, same, pool.clock_ms)
    second(pool, 9, 0, 0)
    assert int(pool.tally.limit[place]) == 1_200_000
    assert pool.tuning.alphas[-1] == 850_000
    other = spec(tenant("team", "elastic", 1_000, borrow_cap=600), OWNER, tuning=FAST, alpha=0.7)
    fold(pool, replace(other, version=3, replaces=2), pool.clock_ms)
    second(pool, 10, 0, 0)
    assert int(pool.tally.limit[place]) == 0
    assert pool.tuning.alphas == ()


def test_a_tuned_limit_is_a_factor_of_the_quota_of_a_tenant_and_of_no_user() -> None:
    quota = Quota("minute", "UTC", 60_000, 0, False, False)
    claim = tenant("team", "elastic", 1_000, quotas=[quota], user_quotas=[quota])
    pool = pool_with(spec(claim, OWNER, tuning=FAST, zones=[zone_of("UTC")]))
    second(pool, 1, 100, 0)
    pool.tally.limit[pool.terms.index["team"]] = 1_500_000
    entry = second(pool, 2, 100, 0).entries[0].body
    assert isinstance(entry, DecisionEntry)
    by_user = dict(zip(entry.quotas.user, entry.quotas.tokens, strict=True))
    assert by_user == {"": 90_000, "*": 60_000, "team": 60_000}


def test_a_quota_is_not_cut_below_what_the_baseline_spends() -> None:
    # 80 % of what the quota of an hour allows is reserved: not below 0.8, not 0.5.
    quota = Quota("hour", "UTC", 4_500_000, 0, False, False)
    claim = tenant("team", "elastic", 1_000, quotas=[quota])
    loop = replace(FAST, cool_down_ms=0)
    pool = pool_with(spec(claim, OWNER, tuning=loop, zones=[zone_of("UTC")]))
    for at_s in range(1, 60):
        second(pool, at_s, 100, 0)
    assert int(pool.tally.limit[pool.terms.index["team"]]) == 800_000
