"""A control worker's metrics: what they count, and their table in the docs."""

import socket
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from streams.control_metrics import COUNTERS, GAUGES, ControlCollector, serve_metrics
from streams.folding import Folding, Keeping
from tests.pools import START
from tests.unit.test_partition import PLACE, TOPICS, a_log, fresh
from tokenweir.usage_log import Message

DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"


@pytest.fixture
def folding() -> Folding[Any]:
    """Eight seconds of two pools, and a message that nobody can read."""
    nothing: Any = None
    folding: Folding[Any] = Folding(nothing, nothing, nothing, nothing, nothing)
    state = fresh()
    log = a_log()
    for message in (*log, Message(len(log), START + 8_000, b"chat", b"nonsense")):
        folding.work.note(state.take(message), TOPICS.control)
    folding.work.checkpointed(0.25)
    folding.kept[PLACE.partition] = Keeping(state, nothing, 1)
    return folding


def test_it_counts_the_work_and_tells_how_old_the_newest_is(folding: Folding[Any]) -> None:
    collector = ControlCollector(folding, TOPICS, now_s=lambda: START / 1000 + 10)
    found = {
        (sample.name.removeprefix("tokenweir_control_"), *sample.labels.values()): sample.value
        for family in collector.collect()
        for sample in family.samples
    }
    assert found == {
        ("messages_total",): 33,
        ("decisions_total",): 14,  # two pools: the last report is at 7.6 s
        ("dead_letters_total",): 1,
        ("checkpoints_total",): 1,
        ("checkpoint_seconds_total",): 0.25,
        ("lag_seconds", str(PLACE.partition)): 2,
        ("decision_age_seconds", "chat"): 3,
        ("decision_age_seconds", "plan"): 3,
    }


def test_the_table_in_the_docs_is_the_table_of_names() -> None:
    text = DOCS.read_text(encoding="utf-8")
    table = [line for line in text.splitlines() if line.startswith("| `tokenweir_control_")]
    counters = [f"| `{name}` | counter | {c.meaning} |" for name, c in COUNTERS.items()]
    assert table == counters + [f"| `{name}` | gauge | {text} |" for name, text in GAUGES.items()]


def test_they_are_served_on_loopback(folding: Folding[Any]) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = serve_metrics(port, folding, TOPICS)
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            assert b"tokenweir_control_decisions_total 14.0" in answer.read()
    finally:
        server.shutdown()
        server.server_close()
