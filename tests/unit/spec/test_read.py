"""A spec is read whole, or every problem is told at once."""

from pathlib import Path

import pytest

from tokenweir.spec import BadSpec, read_spec

CHECKOUT = Path(__file__).parents[3]
HEAD = "pool: chat\ncapacity: {tokens_per_s: 20000}\n"


def problems(text: str) -> list[str]:
    with pytest.raises(BadSpec) as caught:
        read_spec(text, "pool.yaml")
    return str(caught.value).splitlines()


def test_every_problem_is_told_at_once_with_file_line_path_value_and_what_is_allowed() -> None:
    assert problems(
        """\
pool: chat
capacity:
  tokens_per_s: 20000
  kv_bytes: 40 GiX
alpha: .nan
windwo: 60 s
tenants:
  a: {class: guaranteed, baseline: 12000}
  b: {class: dedicated, baseline: 40%}
  c: {class: gold}
"""
    ) == [
        "pool.yaml:4: capacity.kv_bytes: value '40 GiX': bytes, or with a unit "
        "(kB, MB, GB, TB, KiB, MiB, GiB, TiB), more than 0: 40 GiB",
        "pool.yaml:5: alpha: value '.nan': a number from 0 to 1, or a percentage: 0.25, 25%",
        "pool.yaml:6: windwo: unknown field: did you mean window? Allowed: pool, mode, capacity, "
        "interval, window, grace, lease, silent_floor, longest_request, burst, token_weights, "
        "ceiling, pots, alpha, tiers, smoothing, weights, classes, breaker, reclaim, tuning, "
        "schedule, tenants or unknown",
        "pool.yaml:7: tenants: value 21 000 tokens/s (baselines of dedicated and guaranteed "
        "tenants 20 000 tokens/s, starter pots 5 % of the capacity): floors above capacity: "
        "together at most 19 000 tokens/s, which is the ceiling 0.95 of 20 000 tokens/s",
        "pool.yaml:10: tenants.c.class: value 'gold': "
        "preemptible, spot, elastic, guaranteed or dedicated",
    ]


def test_floors_that_just_fit_are_accepted() -> None:
    # 18 000 of baselines and 5 % of pots are 19 000, the ceiling of 20 000.
    text = HEAD + "tenants: {a: {class: guaranteed, baseline: %d}}"
    assert read_spec(text % 18_000, "f").tenants["a"].baseline.rate == 18_000_000
    assert len(problems(text % 18_001)) == 1


@pytest.mark.parametrize(
    "value", [".nan", ".inf", "-.inf", "nan", "true", "[]", "'' ", "-1", "1e9999"]
)
def test_what_is_no_finite_number_in_bounds_is_refused(value: str) -> None:
    assert "alpha: value" in problems(f"{HEAD}alpha: {value}\n")[0]


@pytest.mark.parametrize("value", ["true", "yes", "1.5", "0", ".nan", "3 s", "[1]", "null"])
def test_a_count_is_a_whole_number_and_nothing_else(value: str) -> None:
    assert "tiers.rise: value" in problems(f"{HEAD}tiers: {{rise: {value}}}\n")[0]


@pytest.mark.parametrize("value", ["1", "0.1 s", "250 sec", "-1 s", "61 s", "1s2", "250.5 ms"])
def test_a_time_needs_a_known_unit_and_its_bounds(value: str) -> None:
    line = problems(f"{HEAD}interval: {value}\n")[0]
    assert line == (
        f"pool.yaml:3: interval: value '{value}': "
        "a time with its unit (ms, s, min, h), 250 ms to 1 min"
    )


def test_a_key_that_stands_twice_is_an_error() -> None:
    assert problems(HEAD + "alpha: 0.5\nalpha: 0.6\n") == [
        "pool.yaml:4: alpha: a second time: it stands on line 3 already"
    ]


def test_a_tenant_that_stands_twice_is_an_error() -> None:
    text = HEAD + "tenants:\n  a: {class: spot}\n  a: {class: elastic}\n"
    assert problems(text) == ["pool.yaml:5: tenants.a: a second time: it stands on line 4 already"]


def test_aliases_are_refused_so_that_no_document_unfolds_without_end() -> None:
    text = HEAD + "tenants:\n  a: &x {class: spot}\n  b: *x\n"
    assert "pool.yaml:4: tenants.b: an alias: write the value out" in problems(text)


@pytest.mark.parametrize(
    ("name", "good"),
    [("no", True), ("404", True), ("team/a", True), ("'*'", False), ("' a'", False), ("''", False)],
)
def test_tenants_may_have_almost_any_name(name: str, good: bool) -> None:
    text = f"{HEAD}tenants: {{{name}: {{class: spot}}}}\n"
    if good:
        assert list(read_spec(text, "f").tenants) == [name]
    else:
        assert "this name" in problems(text)[0]


@pytest.mark.parametrize("name", ["a/b", "a@1", "''", "a b", "5"])
def test_a_pools_name_can_be_a_part_of_keys(name: str) -> None:
    assert "pool.yaml:1: pool: value" in problems(f"pool: {name}\ncapacity: {{tokens_per_s: 1}}")[0]


@pytest.mark.parametrize("text", ["", "[]", "5", "null", "- a"])
def test_a_file_that_is_no_mapping_says_what_it_should_be(text: str) -> None:
    assert problems(text)[0].endswith("a mapping with fields such as pool, mode, capacity")


@pytest.mark.parametrize("text", ["a: [", "a: b: c", "\x00", "a: *b", "--- a\n--- b", "{a: }}"])
def test_what_is_not_one_yaml_document_is_one_line_and_no_traceback(text: str) -> None:
    (line,) = problems(text)
    assert line.startswith("pool.yaml:")
    assert "not YAML" in line


def test_what_is_missing_says_what_it_may_be() -> None:
    assert problems("pool: chat\ntenants: {a: {}}\n") == [
        "pool.yaml:1: capacity: missing: "
        "a mapping with fields such as tokens_per_s, kv_bytes, sequences",
        "pool.yaml:2: tenants.a.class: missing: "
        "preemptible, spot, elastic, guaranteed or dedicated",
    ]


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("tiers: {soft: 0.95}", "tiers.hard: value 0.9: above soft, which is 0.95"),
        ("tiers: {hard: 1}", "tiers.break: value 1: above hard, which is 1"),
        ("interval: 8 s", "lease: value 15 s: at least 3 intervals: 24 s"),
        ("window: 5 s\ninterval: 6 s\nlease: 1 min", "window: value 5 s: at least one interval"),
        ("silent_floor: 10 s", "silent_floor: value 10 s: at least one lease: 15 s"),
        (
            "classes: {dedicated: {longest_wait: 2 s}}",
            "classes.dedicated.longest_wait: value 2 s: at least 3 intervals, 3 s",
        ),
        (
            "classes: {spot: {soft: refuse, hard: limit}}",
            "classes.spot.hard: value limit: not milder than soft, which is refuse",
        ),
        (
            "classes: {elastic: {soft: refuse, hard: refuse}}",
            "classes.elastic.soft: value refuse: not harder than for spot, which is limit",
        ),
        (
            "classes: {dedicated: {hard: refuse}}",
            "classes.dedicated.hard: value refuse: none, limit or floor_only: its floor is kept",
        ),
        (
            "tenants: {a: {class: spot, baseline: 5}}",
            "tenants.a.baseline: value 5 tokens/s: none for spot",
        ),
        (
            "tenants: {a: {class: guaranteed}}",
            "tenants.a.baseline: value 0 tokens/s: more than 0 for guaranteed",
        ),
        (
            "tenants: {a: {class: dedicated, baseline: 5, lend_cap: 1}}",
            "tenants.a.lend_cap: value 1 tokens/s: none for dedicated",
        ),
    ],
)
def test_fields_that_do_not_go_together_are_named(field: str, line: str) -> None:
    assert any(f": {line}" in problem for problem in problems(HEAD + field))


def test_a_wrong_field_causes_no_second_problem_in_another() -> None:
    # hard is 0.9 by default, and above it; but what soft should be is not known.
    assert len(problems(HEAD + "tiers: {soft: x, hard: 0.6}\n")) == 1


@pytest.mark.parametrize(
    ("written", "milli"),
    [
        ("6000", 6_000_000),
        ("20k/s", 20_000_000),
        ("20 000", 20_000_000),
        ("1.2M/min", 20_000_000),
        ("72M/h", 20_000_000),
        ("100/min", 1_667),
        ("2e4", 20_000_000),
        ("'0.5'", 500),
    ],
)
def test_rates_have_units_of_number_and_time(written: str, milli: int) -> None:
    pool = read_spec(f"pool: p\ncapacity: {{tokens_per_s: {written}}}\n", "f")
    assert pool.capacity.tokens_per_s == milli


def test_bytes_have_decimal_and_binary_units() -> None:
    text = "pool: p\ncapacity: {tokens_per_s: 1, kv_bytes: %s}\n"
    assert read_spec(text % "40 GiB", "f").capacity.kv_bytes == 40 * 2**30
    assert read_spec(text % "1.5 kB", "f").capacity.kv_bytes == 1500


@pytest.mark.parametrize("file", ["examples/chat-pool.yaml", "streams/demo/pool.yaml"])
def test_the_pools_that_come_with_the_project_are_good(file: str) -> None:
    read_spec((CHECKOUT / file).read_text(encoding="utf-8"), file)
