"""A spec compiles to integers, the same for the same text."""

from tokenweir import wire
from tokenweir.records.spec import CLASSES, PoolSpec
from tokenweir.spec import compile_spec, read_spec
from tokenweir.spec.compile import per_interval

TEXT = """\
pool: chat
capacity: {tokens_per_s: 20k/s, sequences: 256}
interval: 500 ms
classes: {spot: {weight: 2, share_cap: 50%}}
tenants:
  z: {class: spot, tags: {team: b, area: a}}
  a: {class: guaranteed, baseline: 10%, slo: 500 ms}
"""


def compiled(text: str = TEXT) -> PoolSpec:
    return compile_spec(read_spec(text, "f"), 4, 3, text)


def test_rates_are_milli_tokens_and_ratios_millionths() -> None:
    spec = compiled()
    assert (spec.version, spec.replaces, spec.source) == (4, 3, TEXT)
    assert spec.capacity.tokens_per_s == 20_000_000
    assert (spec.ceiling, spec.pots, spec.alpha) == (950_000, 50_000, 800_000)
    assert (spec.tiers.soft, spec.tiers.hard, spec.tiers.circuit_break) == (
        700_000,
        900_000,
        1_000_000,
    )
    assert (spec.weights.slo, spec.weights.burst, spec.weights.debt) == (
        131_000,
        100_000,
        4_000_000,
    )


def test_tenants_stand_in_the_order_of_their_names_and_classes_lowest_first() -> None:
    spec = compiled()
    assert [claim.tenant for claim in spec.entitlements] == ["a", "z"]
    assert tuple(terms.service_class for terms in spec.classes) == CLASSES
    assert list(spec.entitlements[1].tags) == ["area", "team"]


def test_a_share_of_the_capacity_is_kept_as_a_share() -> None:
    claim = compiled().entitlements[0]
    assert (claim.baseline, claim.baseline_share) == (2_000_000, 100_000)


def test_what_a_class_does_not_say_keeps_its_default() -> None:
    preemptible, spot, elastic, _, dedicated = compiled().classes
    assert (spot.weight, spot.share_cap, spot.hard_action) == (2_000_000, 500_000, "refuse")
    assert (preemptible.weight, preemptible.starter) == (100_000, 100_000)
    assert (elastic.hard_action, elastic.longest_wait_ms) == ("floor_only", 1000)
    assert dedicated.longest_wait_ms == 1500  # three intervals (L8)


def test_smoothing_of_two_half_intervals_is_that_of_a_whole_one() -> None:
    assert per_interval(300_000, 1000) == 300_000
    half = per_interval(300_000, 500)
    assert half == 163_340  # 1 - sqrt(0.7)
    assert abs((1 - half / 1e6) ** 2 - 0.7) < 1e-6
    assert per_interval(300_000, 2000) == 510_000
    assert per_interval(1_000_000, 250) == 1_000_000


def test_the_same_text_gives_the_same_bytes_whatever_the_order_of_its_tenants() -> None:
    lines = TEXT.splitlines(keepends=True)
    turned = "".join([*lines[:-2], lines[-1], lines[-2]])
    spec = compile_spec(read_spec(TEXT, "f"), 1, 0)
    other = compile_spec(read_spec(turned, "f"), 1, 0)
    assert wire.encode(spec) == wire.encode(other)
    assert wire.decode(wire.encode(spec)) == spec
