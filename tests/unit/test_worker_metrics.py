"""The workers' metrics: what they count, and their tables in the docs; and how they are served."""

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streams.control_metrics import CONTROL
from streams.folding import Folding, Keeping
from streams.health import Watchdog
from streams.quota_metrics import QUOTAS
from streams.source import Folded
from streams.worker_metrics import Metrics, WatchdogCollector, WorkerCollector, serve_status
from tests.loopback import get
from tests.pools import START
from tests.property.test_across import spend
from tests.unit.test_partition import PLACE, a_log, fresh
from tests.unit.test_quota_partition import PLACE as QUOTA_PLACE
from tests.unit.test_quota_partition import message, partition
from tokenweir.records.usage import PoolSpend
from tokenweir.usage_log import Message

DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"


def folded(state: Folded, *log: Message) -> Folding[Any]:
    """A worker that has folded these messages, with one checkpoint of 0.25 s."""
    nothing: Any = None
    folding: Folding[Any] = Folding(nothing, nothing, nothing, nothing, nothing)
    for one in log:
        folding.work.note(state.take(one), state.place.topics.control)
    folding.work.checkpointed(0.25)
    folding.kept[state.place.partition] = Keeping(state, nothing, 1)
    return folding


def control() -> Folding[Any]:
    """Eight seconds of two pools, and a message that nobody can read."""
    log = a_log()
    return folded(fresh(), *log, Message(len(log), START + 8_000, b"chat", b"nonsense"))


def quotas() -> Folding[Any]:
    """A pool that asks and then has enough, and a message that nobody can read."""
    asked: tuple[PoolSpend | bytes, ...] = (
        spend("chat", 0, 5_000),
        spend("chat", 10, 20, ceiling=5_000),
        b"nonsense",
    )
    return folded(partition(), *(message(n, record, 1_000 * n) for n, record in enumerate(asked)))


WORKERS = [pytest.param("control", CONTROL, control), pytest.param("quotas", QUOTAS, quotas)]


def collector_of(metrics: Metrics[Any], folding: Folding[Any]) -> WorkerCollector:
    """Ten seconds after the first message."""
    [keeping] = folding.kept.values()
    topics = keeping.state.place.topics
    return WorkerCollector(metrics, folding, topics, now_s=lambda: START / 1000 + 10)


def samples(role: str, metrics: Metrics[Any], folding: Folding[Any]) -> dict[Any, float]:
    return {
        (sample.name.removeprefix(f"tokenweir_{role}_"), *sample.labels.values()): sample.value
        for family in collector_of(metrics, folding).collect()
        for sample in family.samples
    }


def test_control_counts_its_work_and_tells_how_old_the_newest_is() -> None:
    assert samples("control", CONTROL, control()) == {
        ("messages_total",): 33,
        ("decisions_total",): 14,  # two pools: the last report is at 7.6 s
        ("dead_letters_total",): 1,
        ("checkpoints_total",): 1,
        ("checkpoint_seconds_total",): 0.25,
        ("lag_seconds", str(PLACE.partition)): 2,
        ("decision_age_seconds", "chat"): 3,
        ("decision_age_seconds", "plan"): 3,
    }


def test_quotas_counts_its_ceilings_and_tells_its_clock() -> None:
    here = str(QUOTA_PLACE.partition)
    assert samples("quotas", QUOTAS, quotas()) == {
        ("messages_total",): 3,
        ("ceilings_total",): 1,
        ("dead_letters_total",): 1,
        ("checkpoints_total",): 1,
        ("checkpoint_seconds_total",): 0.25,
        ("lag_seconds", here): 9,  # the message at 2 s is no record
        ("clock_seconds", here): START / 1000 + 1,
        ("windows", here): 1,
    }


def test_quotas_tells_no_clock_before_the_first_message() -> None:
    found = samples("quotas", QUOTAS, folded(partition()))
    assert {name for name, *labels in found if labels} == {"windows"}


@pytest.mark.parametrize(("role", "metrics", "_"), WORKERS)
def test_the_table_in_the_docs_is_the_table_of_names(
    role: str, metrics: Metrics[Any], _: Any
) -> None:
    text = DOCS.read_text(encoding="utf-8")
    table = [line for line in text.splitlines() if line.startswith(f"| `tokenweir_{role}_")]
    kinds = (("counter", metrics.counters), ("gauge", metrics.gauges))
    assert table == [
        f"| `{name}` | {kind} | {metric.meaning} |"
        for kind, named in kinds
        for name, metric in named.items()
    ]


def test_what_a_watchdog_sees_is_in_the_docs_too() -> None:
    dog = Watchdog("nowhere:1")
    text = DOCS.read_text(encoding="utf-8")
    table = [line for line in text.splitlines() if line.startswith("| `tokenweir_worker_")]
    assert table == [
        f"| `{family.name}` | gauge | {family.documentation} |"
        for family in WatchdogCollector(dog).collect()
    ]


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize(("role", "metrics", "worker"), WORKERS)
def test_metrics_and_health_are_served_on_loopback(
    role: str, metrics: Metrics[Any], worker: Callable[[], Folding[Any]], port: int
) -> None:
    dog = Unleashed("nowhere:1")
    server = serve_status(port, dog, collector_of(metrics, worker()))
    try:
        status, body = get(port, "/metrics")
        assert status == 200
        assert f"tokenweir_{role}_dead_letters_total 1.0" in body
        assert "tokenweir_worker_healthy 1.0" in body
        status, body = get(port, "/healthz?probe=1")
        assert (status, json.loads(body)) == (200, {"ok": True, "problems": []})
        dog.told = "nothing is written yet"
        status, body = get(port, "/healthz")
        assert (status, json.loads(body)) == (503, {"ok": False, "problems": [dog.told]})
        assert "tokenweir_worker_healthy 0.0" in get(port, "/metrics")[1]
    finally:
        server.shutdown()
        server.server_close()


class Unleashed(Watchdog):
    """One that does not look by itself."""

    def start(self) -> None:
        """Stay where it is."""
