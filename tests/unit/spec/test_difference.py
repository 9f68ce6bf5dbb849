"""The difference of two specs is told in the words of the YAML."""

from tokenweir.records.spec import PoolSpec
from tokenweir.spec import compile_spec, read_spec
from tokenweir.spec.difference import Change, difference

HEAD = "pool: chat\ncapacity: {tokens_per_s: 20000, kv_bytes: 40 GiB}\n"


def spec(rest: str = "", version: int = 1) -> PoolSpec:
    return compile_spec(read_spec(HEAD + rest, "f"), version, version - 1)


def test_specs_that_say_the_same_do_not_differ_whatever_their_version_and_comments() -> None:
    assert difference(spec(), spec("# a comment\nalpha: 80%\n", version=2)) == ()


def test_a_changed_field_is_told_with_its_unit() -> None:
    assert difference(spec(), spec("lease: 2 min\nclasses: {spot: {share_cap: 0.5}}\n")) == (
        Change("lease", "15 s", "2 min"),
        Change("classes.spot.share_cap", None, "0.5"),
    )


def test_the_smallest_change_of_a_rate_is_seen() -> None:
    old = spec("tenants: {a: {class: guaranteed, baseline: 6000}}")
    new = spec("tenants: {a: {class: guaranteed, baseline: 6000.001}}")
    assert difference(old, new) == (
        Change("tenants.a.baseline", "6 000 tokens/s", "6 000.001 tokens/s"),
    )


def test_a_tenant_that_comes_or_goes_is_one_change() -> None:
    old = spec("tenants: {a: {class: spot}, b: {class: elastic, baseline: 20%}}")
    new = spec("tenants: {a: {class: spot}, c: {class: guaranteed, baseline: 1k/s}}")
    assert difference(old, new) == (
        Change("tenants.b", "elastic, baseline 20 % of the capacity, slo 1 s", None),
        Change("tenants.c", None, "guaranteed, baseline 1 000 tokens/s, slo 1 s"),
    )


def test_without_an_old_spec_everything_is_new() -> None:
    changes = difference(None, spec())
    assert Change("capacity.kv_bytes", None, "40 GiB") in changes
    assert all(change.before is None for change in changes)
