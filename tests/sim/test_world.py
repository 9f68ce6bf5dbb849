"""Runs as wholes: the same twice, the same load for all, and what a scenario may not say."""

import pytest

from tokenweir.errors import BadInput
from tokenweir.sim.expression import Reference, evaluate
from tokenweir.sim.figures import simulate
from tokenweir.sim.measures import Measured
from tokenweir.sim.read import merged, read_scenario
from tokenweir.sim.strategies import split, turns
from tokenweir.sim.world import World

TEXT = """
scenario: small
pool:
  pool: chat
  capacity: {tokens_per_s: 20k/s}
  token_weights: {uncached: 1, out: 8.67}
  tenants:
    assistant: {class: guaranteed, baseline: 8k/s}
    evals: {class: spot}
gpu: {replicas: 2}
duration: 12 s
phases: {late: {from: 6 s, to: 12 s}}
workloads:
  assistant: {rate: 3, prompt: {mean: 300, cv: 0.5}, output: {mean: 30, most: 60}}
  evals: {arrivals: closed, clients: 5, retries: 9, prompt: 200, output: 40}
runs:
  with: {}
  without: {strategy: none}
  split: {strategy: static-split}
  turns: {strategy: round-robin}
figures:
  ratio:
    value: "{with assistant ttft.p99 late} / {without assistant ttft.p99 late}"
    most: 9
"""


def test_the_same_seed_gives_the_same_run_and_another_one_does_not() -> None:
    def born(seed: int) -> list[tuple[float, float, float]]:
        plan = read_scenario(TEXT, "small.yaml", seed=seed)
        record = World("with", plan.runs["with"], plan.scenario.runs["with"]).run()
        return [(job.born, job.first, job.ended) for job in record.jobs]

    assert born(7) == born(7)
    assert born(7) != born(8)


def test_open_load_is_the_same_whatever_admits_and_everything_is_accounted_for() -> None:
    outcome = simulate(read_scenario(TEXT, "small.yaml"))
    loads = {
        tuple((job.born, job.asked) for job in record.jobs if job.tenant == "assistant")
        for record in outcome.records.values()
    }
    assert len(loads) == 1
    for record in outcome.records.values():
        measured = Measured(record)
        ended = sum(measured.measure("*", name, "all") for name in ("completed", "gave_up"))
        unended = sum(job.outcome == "open" for job in record.jobs)
        assert ended + unended == len(record.jobs)
        running = sum(job.outcome == "open" and job.tenant == "evals" for job in record.jobs)
        assert running <= 5
        assert measured.measure("*", "completed", "all") > 30


def test_a_gateway_that_was_cut_off_comes_back_and_its_reports_count() -> None:
    text = TEXT + "\nevents: [{at: 4 s, cut: [0]}, {at: 8 s, heal: [0]}]\n"
    plan = read_scenario(text, "small.yaml")
    record = World("with", plan.runs["with"], plan.scenario.runs["with"]).run()
    gateways = record.decisions[-1].entry.gateways
    assert len(gateways.gateway) == 2
    assert not any(gateways.missing)
    assert min(gateways.applied) > record.decisions[-4].decision.at_ms


def test_lost_capacity_is_reported_and_decided_on() -> None:
    text = TEXT + "\nevents: [{at: 5 s, replicas: 1, capacity: 10k/s}]\n"
    plan = read_scenario(text, "small.yaml")
    record = World("with", plan.runs["with"], plan.scenario.runs["with"]).run()
    capacities = [taken.decision.capacity for taken in record.decisions]
    assert capacities[0] == 20_000_000
    assert capacities[-1] == 10_000_000


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("duration: 12 s", "duration: soon"),
        ("rate: 3", "rate: -3"),
        ("retries: 9", "retreis: 9"),
        ("strategy: none", "strategy: nome"),
        ("baseline: 8k/s", "baseline: 80k/s"),
        ("late} / ", "later} / "),
        ("assistant ttft.p99 late} /", "assistent ttft.p99 late} /"),
        ("{with assistant ttft.p99", "{with assistant tftt.p99"),
        ("{without assistant ttft.p99 late}", "open('x')"),
    ],
)
def test_what_is_wrong_is_told_with_its_line_its_field_and_what_is_allowed(
    change: str, said: str
) -> None:
    with pytest.raises(BadInput) as error:
        read_scenario(TEXT.replace(change, said), "small.yaml")
    message = str(error.value)
    assert message.startswith("small.yaml:")
    assert any(
        field in message for field in ("duration", "rate", "retreis", "strategy", "value", "pool")
    )
    assert len(message) > 40


def test_figures_are_arithmetic_over_measures() -> None:
    asked: list[Reference] = []

    def two(reference: Reference) -> float:
        asked.append(reference)
        return 2.0

    assert evaluate("3 * {with a ttft.p99 late} - max(1, {with * refused})", two) == 4.0
    assert asked[0] == Reference("with", "a", "ttft.p99", "late")
    assert asked[1].phase == "all"
    assert evaluate("jain(1, 1, 1, 1)", two) == 1.0
    assert evaluate("jain(1, 0, 0, 0)", two) == 0.25


def test_a_mapping_is_laid_over_another_and_null_takes_away() -> None:
    assert merged({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 9, "c": None}}) == {
        "a": {"b": 9},
        "d": 3,
    }


def test_slots_are_split_by_weight_and_none_is_lost() -> None:
    assert split(10, {"a": 1, "b": 1, "c": 1}) == {"a": 4, "b": 3, "c": 3}
    assert split(10, {"a": 98, "b": 1, "c": 1}) == {"a": 8, "b": 1, "c": 1}


def test_turns_come_as_often_as_weights_say_and_are_spread() -> None:
    assert turns({"a": 1, "b": 1}) == ["a", "b"]
    order = turns({"a": 3, "b": 1})
    assert sorted(order) == ["a", "a", "a", "b"]
    assert order.index("b") in (1, 2)
