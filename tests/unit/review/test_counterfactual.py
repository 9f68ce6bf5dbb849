"""What would have been spent under other leases."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pools import ONE, report
from tokenweir.records.spec import TokenWeights
from tokenweir.records.usage import Totals
from tokenweir.review.counterfactual import Account, Asked, Limit, answered
from tokenweir.review.rewrite import asked_by, parts, rewritten, rows_of, with_rows

EVEN = TokenWeights(ONE, ONE, ONE)
AMOUNTS = st.integers(0, 10**6)
OFFERS = st.builds(Asked, AMOUNTS, AMOUNTS, AMOUNTS)
LIMITS = st.none() | st.builds(Limit, AMOUNTS, AMOUNTS)


def limit(rate: int) -> Limit:
    """Tokens/s, with a burst of nothing."""
    return Limit(rate * 1000, 0)


@given(st.lists(st.tuples(OFFERS, LIMITS, st.integers(0, 5_000)), max_size=20))
def test_the_same_leases_change_nothing(course: list[tuple[Asked, Limit | None, int]]) -> None:
    account = Account()
    for asked, same, ms in course:
        assert answered(account, asked, ms, same, same) == asked


@given(st.lists(st.tuples(OFFERS, LIMITS, LIMITS), max_size=20))
def test_all_that_is_offered_is_spent_refused_or_waits(
    course: list[tuple[Asked, Limit | None, Limit | None]],
) -> None:
    account, ahead = Account(), 0
    for asked, recorded, changed in course:
        answer = answered(account, asked, 1000, recorded, changed)
        offered = max(asked.spent + asked.refused + asked.queued - ahead, 0)
        assert answer.spent + answer.refused + answer.queued == offered
        assert min(answer.spent, answer.refused, answer.queued) >= 0
        assert answer.queued <= asked.queued
        ahead = asked.queued - answer.queued


@given(st.lists(st.tuples(OFFERS, LIMITS, LIMITS), max_size=20), st.integers(0, 5_000))
def test_who_may_wait_is_spent_or_refused_in_the_end(
    course: list[tuple[Asked, Limit | None, Limit | None]], wait_ms: int
) -> None:
    account, offered, ended = Account(), 0, 0
    for asked, recorded, changed in course:
        answer = answered(account, replace(asked, queued=0), 1000, recorded, changed, wait_ms)
        offered += asked.spent + asked.refused
        ended += answer.spent + answer.refused
        assert min(answer.spent, answer.refused, answer.queued) >= 0
        assert answer.queued == account.waiting
    assert ended + account.waiting == offered


def test_what_is_not_let_in_waits_as_long_as_it_may_and_is_offered_again() -> None:
    account, asked, none = Account(), Asked(100, 0, 0), Asked(0, 0, 0)
    assert answered(account, asked, 1000, limit(100), limit(40), 2_500) == Asked(40, 0, 60)
    assert answered(account, none, 1000, limit(100), limit(40), 2_500) == Asked(40, 0, 20)
    assert answered(account, none, 1000, limit(100), limit(0), 2_500) == Asked(0, 0, 20)
    assert answered(account, none, 1000, limit(100), limit(40), 2_500) == Asked(0, 20, 0)


def test_a_larger_lease_lets_in_what_was_refused() -> None:
    # 100 tokens/s let 100 of 500 in; 300 would have let in 300
    asked = Asked(spent=100, refused=400, queued=0)
    assert answered(Account(), asked, 1000, limit(100), limit(300)) == Asked(300, 200, 0)


def test_a_larger_lease_is_of_no_use_to_who_was_never_refused() -> None:
    asked = Asked(spent=60, refused=0, queued=0)
    assert answered(Account(), asked, 1000, limit(100), limit(300)) == asked


def test_a_smaller_lease_refuses_what_was_spent_beyond_it() -> None:
    asked = Asked(spent=100, refused=0, queued=0)
    assert answered(Account(), asked, 1000, limit(100), limit(40)) == Asked(40, 60, 0)


def test_without_a_lease_nothing_is_let_in_whatever_the_model_thinks_of_the_record() -> None:
    asked = Asked(spent=100, refused=0, queued=0)  # by what lease, the model cannot see
    assert answered(Account(), asked, 1000, limit(40), limit(0)) == Asked(0, 100, 0)


def test_what_was_refused_for_another_reason_than_the_lease_stays_refused() -> None:
    # the lease would have let in all of it, so something else refused
    asked = Asked(spent=10, refused=50, queued=0)
    assert answered(Account(), asked, 1000, limit(100), limit(300)) == asked


def test_what_was_served_earlier_is_not_offered_again() -> None:
    account = Account()
    waits = Asked(spent=100, refused=0, queued=200)
    assert answered(account, waits, 1000, limit(100), None) == Asked(300, 0, 0)
    comes = Asked(spent=200, refused=0, queued=0)  # those that waited
    assert answered(account, comes, 1000, limit(200), None) == Asked(0, 0, 0)
    assert account.ahead == 0


def test_shadow_mode_lets_in_all_that_is_offered() -> None:
    asked = Asked(spent=100, refused=400, queued=0)
    assert answered(Account(), asked, 1000, limit(100), None) == Asked(500, 0, 0)


@given(AMOUNTS, st.lists(st.integers(0, 1000), min_size=1, max_size=9))
def test_parts_add_up(amount: int, keys: list[int]) -> None:
    split = parts(amount, keys)
    assert sum(split) == amount
    assert len(split) == len(keys)
    assert min(split) >= 0


def sums(totals: Totals) -> dict[str, int]:
    return {
        name: sum(getattr(totals, name))
        for name in ("tokens_out", "tokens_uncached", "refused_tokens", "queued_tokens")
    }


@given(spent=AMOUNTS, refused=AMOUNTS, queued=AMOUNTS, part=st.integers(0, 100))
def test_a_rewritten_report_offers_what_the_recorded_one_did(
    spent: int, refused: int, queued: int, part: int
) -> None:
    weights = TokenWeights(ONE, ONE // 10, 4 * ONE)
    one = report("a", 1, {"acme": spent}, refused={"acme": refused}, queued={"acme": queued})
    rows = rows_of(one, weights)
    asked = asked_by(rows).get("acme", Asked(0, 0, 0))
    kept = asked.spent * part // 100
    answer = Asked(kept, asked.refused + asked.spent - kept, asked.queued)
    other = rewritten(one, rows, {"acme": answer} if asked_by(rows) else {}, weights)
    again = asked_by(rows_of(other, weights)).get("acme", Asked(0, 0, 0))
    assert again.spent + again.refused + again.queued == sum(
        (asked.spent, asked.refused, asked.queued)
    )
    assert again.spent <= answer.spent


def test_users_of_a_tenant_share_what_it_loses() -> None:
    one = report("a", 1, {"x": 300, "y": 100})
    totals = replace(one.totals, names=["acme", "ann", "eve"], tenant=[0, 0], user=[1, 2])
    one = replace(one, totals=totals)
    other = rewritten(one, rows_of(one, EVEN), {"acme": Asked(200, 200, 0)}, EVEN)
    assert list(other.totals.tokens_out) == [150, 50]
    assert list(other.totals.refused_tokens) == [150, 50]


def test_who_was_refused_gets_what_there_is_more() -> None:
    one = report("a", 1, {"x": 300}, refused={"y": 100})
    totals = replace(one.totals, names=["acme", "ann", "eve"], tenant=[0, 0], user=[1, 2])
    one = replace(one, totals=totals)
    other = rewritten(one, rows_of(one, EVEN), {"acme": Asked(380, 20, 0)}, EVEN)
    assert sums(other.totals) == {
        "tokens_out": 300,
        "tokens_uncached": 80,
        "refused_tokens": 20,
        "queued_tokens": 0,
    }
    assert list(other.totals.tokens_uncached) == [0, 80]


def test_a_tenant_that_a_report_does_not_speak_of_gets_a_row() -> None:
    one = with_rows(report("a", 1, {"acme": 100}), ["evals"])
    other = rewritten(one, rows_of(one, EVEN), {"evals": Asked(30, 0, 0)}, EVEN)
    assert asked_by(rows_of(other, EVEN)) == {"acme": Asked(100, 0, 0), "evals": Asked(30, 0, 0)}


@pytest.mark.parametrize("spent", [0, 50])
def test_other_tenants_keep_their_rows(spent: int) -> None:
    one = report("a", 1, {"acme": 100, "evals": 70})
    other = rewritten(one, rows_of(one, EVEN), {"acme": Asked(spent, 100 - spent, 0)}, EVEN)
    assert asked_by(rows_of(other, EVEN))["evals"] == Asked(70, 0, 0)
