"""What holds of every decision, whatever the log: sums, bounds, floors, restoring, encoding."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pools import START, ints, pool_with, report, spec, tenant, terms
from tests.property.long_log import mixed, published
from tokenweir.core.actions import NONE
from tokenweir.core.floors import floors
from tokenweir.core.grants import grants
from tokenweir.core.pool import Pool
from tokenweir.core.share import cut, share, split
from tokenweir.core.step import Decided, UsageRecord, advance, fold
from tokenweir.records.journal import DecisionEntry, JournalEntry
from tokenweir.records.spec import CLASSES, Entitlement, PoolSpec, Quota
from tokenweir.records.usage import CapacityReport
from tokenweir.rows import to_rows
from tokenweir.spec.zones import zone_of
from tokenweir.wire import decode, encode

ONE = 1_000_000
NAMES = ("a", "b", "c", "d", "e")
NAMES_OF_CLASSES: tuple[str, ...] = CLASSES
amounts = st.integers(0, 10**12)


@st.composite
def shares(draw: st.DrawFn) -> tuple[int, list[int], list[int]]:
    size = draw(st.integers(1, 30))
    some = st.one_of(st.integers(0, 20), amounts)
    caps = draw(st.lists(some, min_size=size, max_size=size))
    weights = draw(st.lists(st.integers(1, 5 * 10**9), min_size=size, max_size=size))
    return draw(some), weights, caps


@given(shares())
def test_a_share_is_exact_and_nobody_is_over_its_cap(
    drawn: tuple[int, list[int], list[int]],
) -> None:
    total, weights, caps = drawn
    got = share(total, ints(*weights), ints(*caps))
    assert int(got.sum()) == min(total, sum(caps))
    assert (got >= 0).all()
    assert (got <= ints(*caps)).all()


@given(shares(), st.data())
def test_of_two_with_the_same_cap_the_heavier_has_no_less(
    drawn: tuple[int, list[int], list[int]], data: st.DataObject
) -> None:
    total, weights, caps = drawn
    first, second = (data.draw(st.integers(0, len(caps) - 1)) for _ in range(2))
    caps[first] = caps[second]
    got = share(total, ints(*weights), ints(*caps))
    slack = 1 + total // 10**15  # the rest of a division, and of a float
    if weights[first] >= weights[second]:
        assert got[first] >= got[second] - slack


@given(shares())
def test_nobody_is_left_hungry_while_another_has_more_per_weight(
    drawn: tuple[int, list[int], list[int]],
) -> None:
    """Max-min: what one has above a hungry one's share per weight is rounding."""
    total, weights, caps = drawn
    got = share(total, ints(*weights), ints(*caps)).tolist()
    hungry = [n for n in range(len(caps)) if got[n] < caps[n]]
    for one in hungry:
        for other in range(len(caps)):
            fair = (got[one] + 1) / weights[one] * weights[other]
            assert got[other] <= fair * (1 + 1e-9) + 1


@given(shares(), st.integers(2, 6))
def test_carried_roundings_never_run_away(
    drawn: tuple[int, list[int], list[int]], times: int
) -> None:
    total, weights, caps = drawn
    carry = np.zeros(len(caps), dtype=np.int64)
    for _ in range(times * 5):
        share(total, ints(*weights), ints(*caps), carry)
    assert (np.abs(carry) <= 2 * len(caps) * ONE).all()


@given(
    st.lists(amounts, min_size=1, max_size=8),
    st.integers(1, 5),
    st.randoms(use_true_random=False),
)
def test_a_split_adds_up_for_every_tenant(
    totals: list[int], gateways: int, dice: random.Random
) -> None:
    keys = np.array([[dice.choice((0, 3, 10**9)) for _ in totals] for _ in range(gateways)])
    parts = split(ints(*totals), keys)
    assert parts.sum(axis=0).tolist() == totals
    assert (parts >= 0).all()
    asked = np.where(keys.any(axis=0), totals, 0)
    assert (cut(asked, keys.cumsum(axis=0)) == split(asked, keys)).all()


quotas = st.lists(
    st.builds(
        Quota,
        st.sampled_from(("minute", "hour", "day", "month")),
        st.just("UTC"),
        st.integers(0, 50_000),
        st.sampled_from((0, 5_000)),
        st.booleans(),
        st.booleans(),
    ),
    max_size=2,
    unique_by=lambda quota: quota.cycle,
)


@st.composite
def entitlements(draw: st.DrawFn) -> list[Entitlement]:
    found = []
    for name in NAMES:
        service_class = draw(st.sampled_from(CLASSES))
        cap = draw(st.none() | st.integers(0, 20_000))
        found.append(
            tenant(
                name,
                service_class,
                draw(st.integers(0, 9_000)),
                borrow_cap=cap,
                lend_cap=draw(st.none() | st.integers(0, 5_000)),
                suspended=draw(st.integers(0, 9)) == 0,
                slo_s=draw(st.sampled_from((0.1, 1, 30))),
                sequences=draw(st.none() | st.integers(0, 50)),
                sequence_cap=draw(st.none() | st.integers(0, 50)),
                quotas=draw(quotas),
                user_quotas=draw(quotas),
            )
        )
    return found


@st.composite
def pools(draw: st.DrawFn) -> PoolSpec:
    caps = draw(
        st.dictionaries(
            st.sampled_from(NAMES_OF_CLASSES), st.sampled_from((0, 0.1, 0.4)), max_size=2
        )
    )
    alphas = draw(
        st.dictionaries(st.sampled_from(NAMES_OF_CLASSES), st.sampled_from((0, 0.5)), max_size=2)
    )
    return spec(
        *draw(entitlements()),
        capacity=draw(st.sampled_from((0, 1, 10, 1_000, 10_000, 30_000))),
        alpha=draw(st.sampled_from((0.0, 0.5, 0.8, 1.0))),
        pots=draw(st.sampled_from((0.0, 0.05, 0.5))),
        ceiling=draw(st.sampled_from((0.95, 1.0, 0.3))),
        interval_ms=draw(st.sampled_from((250, 1_000))),
        share_caps=caps,
        alphas=alphas,
        lease_ms=3_000,
        floor_ms=9_000,
        sequences=draw(st.none() | st.sampled_from((0, 1, 60))),
        kv_bytes=draw(st.none() | st.sampled_from((0, 2**20, 2**36))),
        zones=(zone_of("UTC"),),
    )


@given(pools(), st.lists(st.integers(0, 40_000_000), min_size=6, max_size=6), st.integers(0, 63))
def test_grants_fit_and_nobody_is_below_a_floor_that_fits(
    rules: PoolSpec, wants: list[int], seen: int
) -> None:
    some = terms(*rules.entitlements, capacity=rules.capacity.tokens_per_s / 1000)
    available = rules.capacity.tokens_per_s * max(rules.ceiling - rules.pots, 0) // ONE
    demand, weight = ints(*wants), ints(1, 5, 5, 10**6, 7, 10**9)
    lately = np.array([bool(seen >> place & 1) for place in range(6)])
    found = grants(
        available,
        demand,
        weight,
        some,
        rules,
        np.full(6, NONE),
        lately,
        np.zeros(6, np.int64),
        rules.capacity.tokens_per_s,
    )
    kept = floors(available, demand, weight, some, rules.alpha)
    assert int(found.grant.sum()) <= available
    assert (found.grant >= kept.floor).all()
    assert (found.borrowed >= 0).all()
    assert (kept.floor <= np.maximum(some.baseline, 0)).all()
    core = some.of_class(3) & ~some.suspended
    owed = np.where(some.of_class(4), some.baseline, np.minimum(some.baseline, demand))
    if int(some.baseline[core].sum()) <= available:
        assert (found.grant >= owed)[core].all()


@dataclass(frozen=True)
class Message:
    gap_ms: int
    record: UsageRecord


@st.composite
def messages(draw: st.DrawFn) -> list[Message]:
    """A log of one pool's messages: reports with repeats, corrections and late usage; changes."""
    found = []
    sequence = dict.fromkeys("xyz", 0)
    count = draw(st.integers(5, 40))
    for _ in range(count):
        gap = draw(st.sampled_from((0, 1, 90, 260, 499, 500, 1_100, 4_000, 80_000)))
        kind = draw(st.integers(0, 11))
        if kind == 0:
            rate = draw(st.sampled_from((0, 500_000, 20_000_000)))
            found.append(
                Message(
                    gap,
                    CapacityReport("chat", "s", rate, None, draw(st.none() | st.integers(0, 9))),
                )
            )
        else:
            name = draw(st.sampled_from("xyz"))
            sequence[name] += draw(st.sampled_from((0, 1, 1, 1, 1, 3)))
            used = st.integers(-500, 30_000)
            found.append(
                Message(
                    gap,
                    report(
                        name,
                        max(sequence[name], 1),
                        draw(st.dictionaries(st.sampled_from((*NAMES, "who")), used, max_size=4)),
                        refused=draw(
                            st.dictionaries(
                                st.sampled_from(NAMES), st.integers(0, 9_000), max_size=2
                            )
                        ),
                        sequences=draw(
                            st.dictionaries(st.sampled_from(NAMES), st.integers(0, 9), max_size=2)
                        ),
                        applied=START if draw(st.booleans()) else 0,
                        row_age_ms=draw(st.sampled_from((0, 500, 8_000, 100_000))),
                        closing=kind == 1,
                        more=kind == 2,
                    ),
                )
            )
    return found


def run(
    rules: PoolSpec, log: Sequence[Message], dice: random.Random | None = None
) -> tuple[Pool, list[Decided], list[bytes]]:
    """Fold a log; with `dice`, the pool is restored from its mixed rows at every other message."""
    pool, at_ms = pool_with(rules), START
    decided, entries = [], list[bytes]()
    for message in log:
        at_ms += message.gap_ms
        found = advance(pool, at_ms)
        if found is not None:
            decided.append(found)
        record = message.record
        entries += map(encode, fold(pool, record, at_ms))
        if dice is not None and dice.random() < 0.5:
            pool = mixed(pool, dice)
    return pool, decided, entries


@settings(max_examples=25, deadline=None)
@given(pools(), messages())
def test_every_decision_is_within_its_bounds(rules: PoolSpec, log: list[Message]) -> None:
    _, decisions, _ = run(rules, log)
    before = 0
    for decided in decisions:
        ceiling = decided.decision.capacity * rules.ceiling // ONE
        assert decided.decision.granted <= ceiling
        entry = decided.entries[0].body
        assert isinstance(entry, DecisionEntry)
        given_now = sum(entry.gateways.leased)
        assert given_now <= max(ceiling, before)
        before = given_now
        for column in fields(entry.tenants)[2:]:
            values = getattr(entry.tenants, column.name)
            assert all(0 <= value < 2**62 for value in values), column.name
        decision = decided.decision
        assert all(0 <= n < 2**62 for n in (decision.level, decision.level_now, decision.lent))
        for leases in decided.leases:
            assert all(floor <= rate for rate, floor in zip(leases.rate, leases.floor, strict=True))
            assert min((*leases.rate, *leases.floor, *leases.burst, leases.pot_rate)) >= 0


@settings(max_examples=20, deadline=None)
@given(pools(), messages(), st.randoms(use_true_random=False))
def test_a_run_that_is_restored_anywhere_equals_one_run(
    rules: PoolSpec, log: list[Message], dice: random.Random
) -> None:
    whole, together, entries = run(rules, log)
    parts, apart, others = run(rules, log, dice)
    assert to_rows(parts) == to_rows(whole)
    assert [[*published(each)] for each in apart] == [[*published(each)] for each in together]
    assert others == entries


@settings(max_examples=10, deadline=None)
@given(pools(), messages())
def test_what_is_published_survives_encoding(rules: PoolSpec, log: list[Message]) -> None:
    _, decisions, _ = run(rules, log)
    for decided in decisions:
        records: list[object] = [decided.decision, *decided.leases, *decided.entries]
        for record in (*records, decided.barred, decided.roster):
            if record is not None:
                again = decode(encode(record))
                assert encode(again) == encode(record)
                assert type(again) is type(record)
    if decisions:
        first = decisions[0].entries[0]
        assert isinstance(decode(encode(first)), JournalEntry)


@settings(max_examples=12, deadline=None)
@given(pools(), messages(), st.integers(1, 4))
def test_messages_that_come_again_change_nothing(
    rules: PoolSpec, log: list[Message], times: int
) -> None:
    """R1: reports repeated right away, unchanged but for their age."""
    once, _, _ = run(rules, log)
    again: list[Message] = []
    for message in log:
        again.append(message)
        if not isinstance(message.record, CapacityReport):
            again += [replace(message, gap_ms=0)] * times
    repeated, _, _ = run(rules, again)
    assert to_rows(repeated) == to_rows(once)
