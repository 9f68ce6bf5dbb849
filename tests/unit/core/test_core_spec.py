"""Specs: which version may follow, and which cannot be computed with at all (T4)."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.pools import ONE, START, pool_with, spec, tenant
from tokenweir.core.pool import Pool, new_pool
from tokenweir.core.step import advance, fold
from tokenweir.errors import BadRecord
from tokenweir.records.journal import AuditEntry
from tokenweir.records.spec import Capacity, PoolSpec
from tokenweir.rows import to_rows

A = tenant("a", "elastic", 100)


def audit_of(pool: Pool, rules: PoolSpec, at_ms: int) -> AuditEntry:
    (entry,) = fold(pool, rules, at_ms)
    assert isinstance(entry.body, AuditEntry)
    return entry.body


def test_a_spec_holds_from_the_next_boundary_on() -> None:
    pool = pool_with(spec(A))
    first = advance(pool, START)
    assert first is not None
    assert first.decision.spec_version == 1
    fold(pool, spec(A, version=2), START + 300)
    assert pool.spec is not None
    assert pool.spec.version == 1
    second = advance(pool, START + 1_000)
    assert second is not None
    assert second.decision.spec_version == 2
    assert second.roster is not None
    assert second.roster.spec_version == 2


def test_a_spec_that_replaces_another_version_is_rejected_with_a_journal_entry() -> None:
    pool = pool_with(spec(A))
    advance(pool, START)
    before = pool.spec
    audit = audit_of(pool, spec(A, version=5, replaces=4), START + 10)
    assert audit.kind == "spec_rejected"
    assert "replaces version 4" in audit.why
    assert (pool.spec, pool.pending_spec) == (before, None)


def test_a_version_must_rise() -> None:
    pool = pool_with(spec(A, version=3, replaces=0))
    advance(pool, START)
    assert "not above" in audit_of(pool, spec(A, version=3, replaces=3), START + 10).why


def test_the_first_spec_replaces_nothing() -> None:
    pool = new_pool("chat")
    advance(pool, START)
    assert "current version is 0" in audit_of(pool, spec(A, version=2, replaces=1), START).why


def test_a_spec_that_waits_is_the_current_one_for_the_next() -> None:
    pool = pool_with(spec(A))
    assert fold(pool, spec(A, version=2), START - 400) == ()
    decided = advance(pool, START)
    assert decided is not None
    assert decided.decision.spec_version == 2


def test_journal_entries_have_ids_of_their_own() -> None:
    pool = pool_with(spec(A))
    advance(pool, START)
    entries = [fold(pool, spec(A, version=9, replaces=8), START + n)[0].id for n in range(3)]
    assert len(set(entries)) == 3
    assert all(id_.startswith(f"chat@{START}/audit/") for id_ in entries)


def test_an_interval_that_changes_begins_at_a_boundary_of_both() -> None:
    pool = pool_with(spec(A, interval_ms=250))
    advance(pool, START + 250)
    fold(pool, spec(A, version=2, interval_ms=1000), START + 300)
    seen = [advance(pool, START + ms) for ms in (500, 750, 1_000, 1_400, 2_000)]
    assert [decided and decided.decision.at_ms - START for decided in seen] == [
        500,
        None,
        1_000,
        None,
        2_000,
    ]


BAD: dict[str, Callable[[PoolSpec], PoolSpec]] = {
    "interval_ms": lambda rules: replace(rules, interval_ms=0),
    "window_s": lambda rules: replace(rules, window_s=10**9),
    "lease_ms": lambda rules: replace(rules, lease_ms=0),
    "alpha": lambda rules: replace(rules, alpha=ONE + 1),
    "ewma": lambda rules: replace(rules, ewma=-1),
    "ceiling": lambda rules: replace(rules, ceiling=2 * ONE),
    "capacity.tokens_per_s": lambda rules: replace(rules, capacity=Capacity(-1, None, None)),
    "tiers.rise": lambda rules: replace(rules, tiers=replace(rules.tiers, rise=0)),
    "token_weights.out": lambda rules: replace(
        rules, token_weights=replace(rules.token_weights, out=-1)
    ),
    "weights.debt": lambda rules: replace(rules, weights=replace(rules.weights, debt=10**10)),
    "classes are": lambda rules: replace(rules, classes=rules.classes[1:]),
    "classes.spot.share_cap": lambda rules: replace(
        rules, classes=[replace(each, share_cap=-1) for each in rules.classes]
    ),
    "names must differ": lambda rules: replace(rules, entitlements=[A, A]),
    r"not be empty or \*": lambda rules: replace(rules, entitlements=[tenant("*", "spot")]),
    "tenant a: baseline": lambda rules: replace(rules, entitlements=[replace(A, baseline=-1)]),
    "tenant a: borrow_cap": lambda rules: replace(
        rules, entitlements=[replace(A, borrow_cap=2**62)]
    ),
}


@pytest.mark.parametrize("why", BAD)
def test_a_spec_that_cannot_be_computed_with_is_refused(why: str) -> None:
    pool = pool_with(spec(A))
    before = to_rows(pool)
    with pytest.raises(BadRecord, match=why):
        fold(pool, BAD[why](spec(A, version=2)), START)
    assert to_rows(pool) == before


def test_everything_that_is_wrong_is_said_at_once() -> None:
    bad = replace(spec(A), interval_ms=1, alpha=-1)
    with pytest.raises(BadRecord, match=r"interval_ms is 1: .*; alpha is -1: "):
        fold(new_pool("chat"), bad, START)
