"""Prometheus metrics of a control worker."""

from collections.abc import Iterator
from typing import Any, Final

from streams.partition import Partition
from streams.worker_metrics import Counted, Gauged, Metrics, age_s, counters


def _lag(state: Partition[Any], now_s: float) -> Iterator[tuple[str, float]]:
    yield str(state.place.partition), age_s(state.clock_ms, now_s)


def _decision_ages(state: Partition[Any], now_s: float) -> Iterator[tuple[str, float]]:
    for pool in [*state.pools.values()]:
        yield pool.name, age_s(pool.boundary_ms, now_s)


CONTROL: Final[Metrics[Partition[Any]]] = Metrics(
    counters(
        "control",
        "usage",
        decisions=Counted("decisions that were published", lambda work, _: work.decisions),
    ),
    {
        "tokenweir_control_lag_seconds": Gauged(
            "since the append of the newest folded message; gateways report each half interval",
            "partition",
            _lag,
        ),
        "tokenweir_control_decision_age_seconds": Gauged(
            "age of a pool's newest decision", "pool", _decision_ages
        ),
    },
)
