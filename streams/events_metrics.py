"""Prometheus metrics of an events worker: what became of the events of its partitions."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from streams.events_clock import Ticks
from streams.events_partition import EventsPartition
from streams.folding import Folding
from tokenweir.events.gather import Gathering

EVENTS: Final = "tokenweir_events"
OUTCOMES: Final[Mapping[str, str]] = {
    "taken": "it added a row",
    "repeat": "its id, or without one its content, was known",
    "unstable_id": "a known event under another id",
    "late": "its attempt had said more already",
    "forwarded": "sent on to the partition of its key",
    "dead_letter": "could not be used",
    "estimated": "of those taken: the usage was not told",
    "total_differs": "its total was not the sum of its parts",
}


class EventsCollector(Collector):
    """Reads the partitions that the worker has when it is asked.

    The counts are part of a partition's state: they go on after a crash, and with the partition to
    another worker.
    """

    def __init__(self, folding: Folding[EventsPartition], ticks: Ticks) -> None:
        self.folding, self.ticks = folding, ticks

    def collect(self) -> Iterator[Family]:
        """The families, with a sample for each partition."""
        states = {
            str(number): keeping.state.state for number, keeping in [*self.folding.kept.items()]
        }
        yield _events(states)
        yield _gauge("remembered", "hashes of ids and ended attempts", states, _remembered)
        yield _gauge("forgotten", "remembered for less than an hour", states, _forgotten)
        yield _gauge("open", "attempts whose usage is not final", states, _open)
        yield _gauge("lag_seconds", "how far the reports are behind", states, self._lag_s)

    def _lag_s(self, state: Gathering) -> float:
        return max(self.ticks.now_ms() - state.clock_ms, 0) / 1000


def _events(states: Mapping[str, Gathering]) -> Family:
    meaning = "; ".join(f"{name}: {text}" for name, text in OUTCOMES.items())
    family = CounterMetricFamily(
        EVENTS, f"events by what became of them. {meaning}", labels=("partition", "outcome")
    )
    for number, state in states.items():
        for outcome in OUTCOMES:
            family.add_metric((number, outcome), state.counts[outcome])
    return family


def _gauge(
    name: str, meaning: str, states: Mapping[str, Gathering], value: Callable[[Gathering], float]
) -> Family:
    family = GaugeMetricFamily(f"{EVENTS}_{name}", meaning, labels=("partition",))
    for number, state in states.items():
        family.add_metric((number,), value(state))
    return family


def _remembered(state: Gathering) -> int:
    return len(state.memory.known)


def _forgotten(state: Gathering) -> int:
    return state.memory.forgotten


def _open(state: Gathering) -> int:
    return len(state.memory.open)
