"""Through hours in which nothing happens nobody reports; before the next request all are there."""

from tokenweir.sim.measures import Measured
from tokenweir.sim.read import read_scenario
from tokenweir.sim.world import Record, World

TEXT = """
scenario: quiet
pool:
  pool: chat
  capacity: {tokens_per_s: 20k/s}
  token_weights: {uncached: 1, out: 8.67}
  tenants:
    assistant: {class: guaranteed, baseline: 12k/s}
gpu: {replicas: 2}
duration: 7220 s
phases:
  evening: {from: 10 s, to: 20 s}
  morning: {from: 7200 s, to: 7210 s}
workloads:
  assistant: {rate: 0, during: {evening: 3, morning: 3}, prompt: 300, output: 30}
"""


def played(text: str) -> Record:
    plan = read_scenario(text, "quiet.yaml")
    return World("with", plan.runs["with"], plan.scenario.runs["with"]).run()


def test_two_quiet_hours_take_few_decisions_and_the_morning_is_served_at_once() -> None:
    record = played(TEXT)
    measured = Measured(record)
    assert len(record.decisions) < 250
    assert measured.measure("assistant", "requests", "morning") > 15
    assert measured.measure("assistant", "gave_up", "morning") == 0
    assert measured.measure("assistant", "wait.max", "morning") < 4


def test_what_somebody_reports_in_the_night_is_decided_on() -> None:
    record = played(TEXT + "events: [{at: 3600 s, capacity: 10k/s}]\n")
    heard = [one for one in record.decisions if 3600_000 <= one.at < 3602_000]
    assert heard
    assert heard[-1].decision.capacity == 10_000_000
