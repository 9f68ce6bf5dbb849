"""A recorded run under its own policy, and under changed ones."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.enforced import enforced
from tests.pools import START, spec, tenant
from tests.recordings import Recording, messages, recorded, run
from tokenweir.core.step import UsageRecord
from tokenweir.errors import BadInput
from tokenweir.records.spec import PoolSpec, TokenWeights
from tokenweir.records.usage import CapacityReport
from tokenweir.review.frames import FIGURES, Frame
from tokenweir.review.span import Span
from tokenweir.review.sums import Sums, summed
from tokenweir.review.what_if import WhatIf, what_if

# gold leaves 5 500 of its 6 000 tokens/s idle; tin wants far more than there is
CLAIMS = (
    tenant("gold", "guaranteed", 6_000),
    tenant("iron", "elastic", 2_000),
    tenant("tin", "spot"),
)
RULES = spec(*CLAIMS, alpha=0.5)
OFFERS = {"gold": 500, "iron": 1_000, "tin": 9_000}
LATER = Span(from_ms=START + 20_000)


@pytest.fixture(scope="module")
def made() -> Recording:
    return recorded(messages(enforced(RULES, lambda _: OFFERS)))


def changed(**fields: object) -> Callable[[PoolSpec], PoolSpec]:
    return lambda rules: replace(rules, **fields)  # type: ignore[arg-type]


def sides(found: WhatIf) -> tuple[Sums, Sums]:
    return summed(found.recorded.frames), summed(found.changed.frames)


def differing(found: WhatIf) -> set[tuple[str, str]]:
    """Which figures of which tenants differ in any decision."""
    pairs = zip(found.recorded.frames, found.changed.frames, strict=True)
    return {
        (ours.names[place], FIGURES[figure])
        for ours, theirs in pairs
        for figure, place in np.argwhere(ours.values != theirs.values).tolist()
    }


def of_pool(frame: Frame) -> tuple[object, ...]:
    return frame.at_ms, frame.tier, frame.breaker, frame.level, frame.capacity


def _is_later(record: object) -> bool:
    return isinstance(record, PoolSpec) and record.version > 1


@pytest.mark.parametrize("seed", [1, 2])
async def test_the_same_policy_makes_no_difference(seed: int) -> None:
    """In runs that obey nothing too: with repeats, holes, lost capacity and rejected reports."""
    log = [one for one in run(seed, 140) if not _is_later(one[1])]
    found = await what_if(recorded(messages(log)), Span(), lambda rules: replace(rules))
    assert found.is_same
    assert [*map(of_pool, found.recorded.frames)] == [*map(of_pool, found.changed.frames)]
    assert not differing(found)
    assert found.recorded.audits == found.changed.audits
    assert len(found.recorded.frames) > 40


async def test_the_recorded_world_is_the_record(made: Recording) -> None:
    found = await what_if(made, LATER, changed(alpha=900_000))
    replayed = await what_if(made, Span(from_ms=START + 1_000), lambda rules: rules)
    tail = replayed.recorded.frames[-len(found.recorded.frames) :]
    assert [*map(of_pool, tail)] == [*map(of_pool, found.recorded.frames)]


async def test_a_larger_alpha_shows_the_borrowed_tokens_and_nothing_else(made: Recording) -> None:
    found = await what_if(made, LATER, changed(alpha=800_000))
    before, after = sides(found)
    # tin borrows 0.3 more of gold's idle 5 500 and of iron's 1 000, and spends it; grants of those
    # two shrink by what is no longer held for them, which they do not ask for
    assert differing(found) == {
        ("tin", "borrowed"),
        ("tin", "grant"),
        ("tin", "spent"),
        ("tin", "refused_tokens"),
        ("gold", "grant"),
        ("iron", "grant"),
    }
    assert [*map(of_pool, found.recorded.frames)] == [*map(of_pool, found.changed.frames)]
    more = after.tenants["tin"].spent - before.tenants["tin"].spent
    lent = after.tenants["tin"].borrowed - before.tenants["tin"].borrowed
    assert lent == 20 * 1_950
    # what is lent is spent, but for 2 s of 20: gold's gateways give back first, then tin's may grow
    assert 0.85 * lent < more <= 0.9 * lent
    assert after.spent - before.spent == more == before.refused_tokens - after.refused_tokens


async def test_who_may_borrow_less_is_refused_more(made: Recording) -> None:
    found = await what_if(made, LATER, changed(alpha=200_000))
    before, after = sides(found)
    assert after.tenants["tin"].spent < before.tenants["tin"].spent
    lost = before.tenants["tin"].spent - after.tenants["tin"].spent
    assert after.tenants["tin"].refused_tokens - before.tenants["tin"].refused_tokens == lost
    assert after.tenants["gold"].spent == before.tenants["gold"].spent


async def test_who_is_suspended_spends_nothing_once_the_gateways_know(made: Recording) -> None:
    claims = [replace(claim, suspended=claim.tenant == "tin") for claim in RULES.entitlements]
    found = await what_if(made, LATER, changed(entitlements=claims))
    late = found.changed.frames[-1]
    assert late.of("spent")[late.names.index("tin")] == 0
    assert late.of("refused_tokens")[late.names.index("tin")] == 9_000


async def test_a_pool_in_shadow_mode_would_have_let_everything_in(made: Recording) -> None:
    found = await what_if(made, LATER, changed(mode="shadow"))
    _, after = sides(found)
    late = found.changed.frames[-1]
    assert late.of("refused_tokens").sum() == 0
    assert after.spent > 19 * sum(OFFERS.values())


async def test_another_interval_takes_decisions_at_other_times(made: Recording) -> None:
    found = await what_if(made, LATER, changed(interval_ms=2_000))
    before, after = sides(found)
    assert (before.decisions, after.decisions) == (20, 10)
    assert after.spent == pytest.approx(before.spent, rel=0.08)


async def test_a_tenant_that_the_policy_does_not_know_is_served_as_unknown(made: Recording) -> None:
    found = await what_if(made, LATER, changed(entitlements=RULES.entitlements[:2]))
    assert "tin" not in found.changed.frames[-1].names
    assert "*" in found.changed.frames[-1].names


async def test_specs_of_the_log_are_passed_over_and_capacities_are_not() -> None:
    extra: dict[int, UsageRecord] = {
        25: spec(*CLAIMS, alpha=0.9, version=2),
        30: CapacityReport("chat", "x", 5_000_000, None, None),
    }
    log = recorded(messages(enforced(RULES, lambda _: OFFERS, extra=extra)))
    found = await what_if(log, LATER, changed(alpha=600_000))
    assert found.passed_over == 1
    assert {frame.alpha for frame in found.changed.frames} == {600_000}
    assert {frame.alpha for frame in found.recorded.frames} == {500_000, 900_000}
    assert found.changed.frames[-1].capacity == found.recorded.frames[-1].capacity == 5_000_000


async def test_a_range_without_decisions_is_said_so(made: Recording) -> None:
    with pytest.raises(BadInput, match="no decisions in this range"):
        await what_if(made, Span(from_ms=START + 10**7), lambda rules: rules)


async def test_other_token_weights_are_refused(made: Recording) -> None:
    weights = TokenWeights(1, 1, 1)
    with pytest.raises(BadInput, match="token_weights"):
        await what_if(made, LATER, changed(token_weights=weights))
