"""Prometheus metrics and the health of a worker, read when they are asked for."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from wsgiref.simple_server import WSGIServer
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import CollectorRegistry, make_wsgi_app, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from streams.folding import Folding
from streams.health import Watchdog
from streams.work import Work
from tokenweir.topics import Topics

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Counted:
    """A counter of the worker's work."""

    meaning: str
    value: Callable[[Work, Topics], float]


@dataclass(frozen=True, slots=True)
class Gauged(Generic[S]):
    """A gauge of each partition that the worker has: pairs of the label's value and its own.

    It is given the partition and the time in s. It is called from a thread of its own, while the
    partition goes on: it must copy what it iterates over.
    """

    meaning: str
    label: str
    values: Callable[[S, float], Iterable[tuple[str, float]]]


@dataclass(frozen=True, slots=True)
class Metrics(Generic[S]):
    """A worker's metrics by their names; docs/metrics.md has the tables."""

    counters: Mapping[str, Counted]
    gauges: Mapping[str, Gauged[S]]


def counters(role: str, log: str, **made: Counted) -> Mapping[str, Counted]:
    """The counters of a worker that folds the topic `log`; `made` is what it publishes."""
    counted = {
        "messages": Counted(
            f"messages of the {log} topic that were folded", lambda work, _: work.folded
        ),
        **made,
        "dead_letters": Counted(
            "messages that could not be used",
            lambda work, topics: work.published[topics.dead_letter],
        ),
        "checkpoints": Counted("checkpoints of a partition", lambda work, _: work.checkpoints),
        "checkpoint_seconds": Counted("time that they took", lambda work, _: work.checkpoint_s),
    }
    return {f"tokenweir_{role}_{name}_total": counter for name, counter in counted.items()}


def age_s(ms: int, now_s: float) -> float:
    """How long ago `ms` is, and 0 for what clocks differ by."""
    return max(now_s - ms / 1000, 0.0)


class WorkerCollector(Collector):
    """Reads what a worker has done and the partitions that it has."""

    def __init__(
        self,
        metrics: Metrics[Any],
        folding: Folding[Any],
        topics: Topics,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self.metrics, self.folding, self.topics, self.now_s = metrics, folding, topics, now_s

    def collect(self) -> Iterator[Family]:
        """The counters of this process, and the gauges of what it has now."""
        for name, counted in self.metrics.counters.items():
            value = counted.value(self.folding.work, self.topics)
            yield CounterMetricFamily(name, counted.meaning, value=value)
        states = [keeping.state for keeping in [*self.folding.kept.values()]]
        for name, gauged in self.metrics.gauges.items():
            family = GaugeMetricFamily(name, gauged.meaning, labels=(gauged.label,))
            for state in states:
                for label, value in gauged.values(state, self.now_s()):
                    family.add_metric((label,), value)
            yield family


class WatchdogCollector(Collector):
    """What a worker's watchdog sees."""

    def __init__(self, watchdog: Watchdog) -> None:
        self.watchdog = watchdog

    def collect(self) -> Iterator[Family]:
        """Its verdict, and what the verdict is about."""
        yield GaugeMetricFamily(
            "tokenweir_worker_healthy",
            "1 while `/healthz` answers 200, else 0",
            value=self.watchdog.health().ok,
        )
        still = GaugeMetricFamily(
            "tokenweir_worker_still_seconds",
            "how long messages have waited while none was finished; 0 while it goes on",
            labels=("topic", "partition"),
        )
        for place, seconds in self.watchdog.still_s().items():
            still.add_metric((place.topic, str(place.partition)), seconds)
        yield still


def serve_status(port: int, watchdog: Watchdog, *collectors: Collector) -> WSGIServer:
    """Answer `/metrics` and `/healthz` on loopback, also while the worker is stuck.

    That is done in a thread of its own, and so is what the watchdog does from now on.
    """
    watchdog.start()
    registry = CollectorRegistry(auto_describe=False)
    for collector in (WatchdogCollector(watchdog), *collectors):
        registry.register(collector)
    server, _ = start_http_server(port, "127.0.0.1", registry)
    server.set_app(_with_health(watchdog, make_wsgi_app(registry)))
    return server


def _with_health(watchdog: Watchdog, others: WSGIApplication) -> WSGIApplication:
    """`/healthz` as gateways answer it, and all other paths as before."""

    def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] != "/healthz":
            return others(environ, start)
        found = watchdog.health()
        body = found.body()
        status = "200 OK" if found.ok else "503 Service Unavailable"
        start(status, [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return [body]

    return answer
