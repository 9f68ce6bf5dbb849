"""Prometheus metrics of a control worker, read when they are asked for."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from streams.folding import Folding
from streams.work import Work
from tokenweir.topics import Topics


@dataclass(frozen=True, slots=True)
class Counted:
    """A counter of the worker's work."""

    meaning: str
    value: Callable[[Work, Topics], float]


# The one place of these names; docs/metrics.md has the table.
COUNTERS: Final = {
    "tokenweir_control_messages_total": Counted(
        "messages of the usage topic that were folded", lambda work, _: work.folded
    ),
    "tokenweir_control_decisions_total": Counted(
        "decisions that were published", lambda work, _: work.decisions
    ),
    "tokenweir_control_dead_letters_total": Counted(
        "messages that could not be used", lambda work, topics: work.published[topics.dead_letter]
    ),
    "tokenweir_control_checkpoints_total": Counted(
        "checkpoints of a partition", lambda work, _: work.checkpoints
    ),
    "tokenweir_control_checkpoint_seconds_total": Counted(
        "time that they took", lambda work, _: work.checkpoint_s
    ),
}
LAG: Final = "tokenweir_control_lag_seconds"
DECISION_AGE: Final = "tokenweir_control_decision_age_seconds"
GAUGES: Final = {
    LAG: "since the append of the newest folded message; gateways report each half interval",
    DECISION_AGE: "age of a pool's newest decision",
}


class ControlCollector(Collector):
    """Reads what a worker has done and the partitions that it has."""

    def __init__(
        self, folding: Folding[Any], topics: Topics, now_s: Callable[[], float] = time.time
    ) -> None:
        self.folding, self.topics, self.now_s = folding, topics, now_s

    def collect(self) -> Iterator[Family]:
        """The counters of this process, and the ages of what it has now."""
        for name, counted in COUNTERS.items():
            value = counted.value(self.folding.work, self.topics)
            yield CounterMetricFamily(name, counted.meaning, value=value)
        lag = GaugeMetricFamily(LAG, GAUGES[LAG], labels=("partition",))
        ages = GaugeMetricFamily(DECISION_AGE, GAUGES[DECISION_AGE], labels=("pool",))
        for number, keeping in [*self.folding.kept.items()]:
            lag.add_metric((str(number),), self._age_s(keeping.state.clock_ms))
            for pool in [*keeping.state.pools.values()]:
                ages.add_metric((pool.name,), self._age_s(pool.boundary_ms))
        yield from (lag, ages)

    def _age_s(self, ms: int) -> float:
        return max(self.now_s() - ms / 1000, 0.0)


def serve_metrics(port: int, folding: Folding[Any], topics: Topics) -> WSGIServer:
    """Answer `/metrics` on loopback, from a thread of its own: also while the worker is stuck."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ControlCollector(folding, topics))
    server, _ = start_http_server(port, "127.0.0.1", registry)
    return server
