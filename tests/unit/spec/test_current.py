"""Which spec is in force follows from the log alone (T4)."""

from dataclasses import replace

from tokenweir.records.spec import PoolSpec
from tokenweir.spec import compile_spec, read_spec
from tokenweir.spec.current import current

BARE = compile_spec(read_spec("pool: p\ncapacity: {tokens_per_s: 1}", "f"), 1, 0)


def spec(version: int, replaces: int, source: str = "") -> PoolSpec:
    return replace(BARE, version=version, replaces=replaces, source=source)


def test_nothing_is_in_force_in_an_empty_log() -> None:
    assert current([]) is None


def test_each_spec_that_replaces_the_current_one_is_accepted() -> None:
    specs = [spec(1, 0), spec(2, 1), spec(3, 2)]
    assert current(specs) == specs[2]


def test_of_two_that_replace_the_same_version_the_first_in_the_log_is_accepted() -> None:
    first, second = spec(2, 1, "first"), spec(2, 1, "second")
    assert current([spec(1, 0), first, second]) == first


def test_a_spec_that_replaces_an_old_version_is_rejected() -> None:
    assert current([spec(1, 0), spec(2, 1), spec(9, 1)]) == spec(2, 1)


def test_a_version_that_does_not_rise_is_rejected() -> None:
    assert current([spec(5, 0), spec(5, 5), spec(4, 5)]) == spec(5, 0)


def test_where_the_beginning_is_gone_the_decisions_version_is_the_start() -> None:
    # Version 7 was accepted, as a decision says; what came before it needs no proof.
    assert current([spec(6, 5), spec(7, 6), spec(8, 7)], known=7) == spec(8, 7)
    assert current([spec(8, 7)], known=7) == spec(8, 7)
    assert current([spec(6, 5)], known=7) is None
