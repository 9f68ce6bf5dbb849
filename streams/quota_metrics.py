"""Prometheus metrics of a quotas worker."""

from collections.abc import Iterator
from typing import Final

from streams.quota_partition import QuotaPartition
from streams.worker_metrics import Counted, Gauged, Metrics, age_s, counters


def _lag(state: QuotaPartition, now_s: float) -> Iterator[tuple[str, float]]:
    if state.state.clock_ms:
        yield str(state.place.partition), age_s(state.state.clock_ms, now_s)


def _clock(state: QuotaPartition, _: float) -> Iterator[tuple[str, float]]:
    if state.state.clock_ms:
        yield str(state.place.partition), state.state.clock_ms / 1000


def _windows(state: QuotaPartition, _: float) -> Iterator[tuple[str, float]]:
    yield str(state.place.partition), len(state.state.shared)


QUOTAS: Final[Metrics[QuotaPartition]] = Metrics(
    counters(
        "quotas",
        "spend",
        ceilings=Counted(
            "ceilings that were published", lambda work, topics: work.published[topics.usage]
        ),
    ),
    {
        "tokenweir_quotas_lag_seconds": Gauged(
            "since the append of the newest usable message; pools report while they could use more",
            "partition",
            _lag,
        ),
        "tokenweir_quotas_clock_seconds": Gauged(
            "when the newest usable message was appended, Unix time", "partition", _clock
        ),
        "tokenweir_quotas_windows": Gauged("windows that are shared", "partition", _windows),
    },
)
