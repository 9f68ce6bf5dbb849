"""The metrics' names, their table in the docs, their bound, and what they count."""

import re
from pathlib import Path
from typing import get_args

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from tests.loopback import get
from tests.unit.gateway.made import EPOCH_MS, POOL, ask, give, settle
from tests.unit.gateway.test_health import Clock
from tokenweir.gateway import Gateway
from tokenweir.gateway.metrics import METRICS, GatewayCollector, Metric, Name
from tokenweir.gateway.pool import PoolGate
from tokenweir.gateway.status import StatusServer

DOCS = Path(__file__).parents[3] / "docs" / "metrics.md"
UNITS = {"s": "seconds", "By": "bytes"}


def prometheus_name(metric: Metric) -> str:
    """The name that OpenTelemetry's Prometheus compatibility gives: units as a suffix, of which
    what stands in braces is left out, and `_total` for what only grows.
    """
    unit, _, per = re.sub(r"\{.*?\}", "", metric.unit).partition("/")
    parts = [metric.otel.replace(".", "_"), UNITS[unit] if unit else ""]
    parts += ["per_second" if per == "s" else "", "total" if metric.kind == "counter" else ""]
    return "_".join(part for part in parts if part)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def gateway(clock: Clock) -> Gateway:
    return Gateway(brokers="nowhere:1", name="edge", pools=[POOL], clock=clock)


def gate_of(gateway: Gateway) -> PoolGate:
    return gateway._lanes[POOL].gate


def run(gateway: Gateway, clock: Clock) -> None:
    """A second: 30 tokens asked for, 25 used; two that are refused; one in flight."""
    gate = gate_of(gateway)
    gate.acknowledged(EPOCH_MS, 0, 0)
    give(gate, 0, ("ela", 100, 100, 10), ("spo", 0, 0, 0))
    clock.now_ms = 1000
    settle(gate, ask(gate, 1000, "ela", 30, user="bo"), 1000, 25)
    ask(gate, 1000, "ela", 40, user="cy")
    ask(gate, 1000, "spo", 5)
    ask(gate, 1000, "nobody", 5)
    gateway._outlets[POOL].cut()
    clock.now_ms = 1200


def samples(collector: GatewayCollector) -> dict[str, dict[tuple[str, ...], float]]:
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in collector.collect():
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def test_each_name_is_in_the_one_place_of_names() -> None:
    assert list(METRICS) == list(get_args(Name))


@pytest.mark.parametrize("name", METRICS)
def test_a_name_is_what_opentelemetry_makes_of_its_own(name: Name) -> None:
    assert prometheus_name(METRICS[name]) == name


def test_the_table_in_the_docs_is_this_table() -> None:
    rows = [
        f"| `{name}` | {metric.kind} | {', '.join(metric.labels)} | `{metric.otel}`"
        f" | {f'`{metric.unit}`' if metric.unit else ''} | {metric.meaning} |"
        for name, metric in METRICS.items()
    ]
    text = DOCS.read_text(encoding="utf-8")
    table = [line for line in text.splitlines() if line.startswith("| `tokenweir_gateway_")]
    assert table == rows


def test_it_counts_what_happened(gateway: Gateway, clock: Clock) -> None:
    run(gateway, clock)
    found = samples(GatewayCollector(gateway))
    assert found["tokenweir_gateway_requests_total"] == {
        ("chat", "ela", "admitted", ""): 2,
        ("chat", "spo", "admitted", ""): 0,
        ("chat", "spo", "refused", "tokens"): 1,
        ("chat", "*", "admitted", ""): 0,
        ("chat", "*", "refused", "no_lease"): 1,
    }
    assert found["tokenweir_gateway_ended_total"]["chat", "ela"] == 1
    assert found["tokenweir_gateway_tokens_total"]["chat", "ela", "uncached"] == 25
    assert found["tokenweir_gateway_in_flight"]["chat", "ela"] == 1
    assert found["tokenweir_gateway_spent"]["chat", "ela"] == 65
    assert found["tokenweir_gateway_lease_rate_per_second"]["chat", "ela"] == 100
    assert found["tokenweir_gateway_lease_remaining"]["chat", "ela"] == 55
    assert found["tokenweir_gateway_control_age_seconds"]["chat",] == 1.2
    assert found["tokenweir_gateway_unsent_age_seconds"]["chat",] == 0.2
    assert found["tokenweir_gateway_phase"]["chat", "lease"] == 1
    assert found["tokenweir_gateway_spool_reports"]["chat",] == 1
    assert found["tokenweir_gateway_healthy"][()] == 1
    assert found["tokenweir_gateway_info"][gateway.id,] == 1


def test_a_scrape_changes_nothing(gateway: Gateway, clock: Clock) -> None:
    run(gateway, clock)
    bucket = gate_of(gateway).subjects["ela"].bucket
    before = (bucket.level, bucket.at_ms, bucket.rest)
    collector = GatewayCollector(gateway)
    assert samples(collector) == samples(collector)
    assert (bucket.level, bucket.at_ms, bucket.rest) == before


def test_tenants_above_the_bound_are_added_up_and_no_counter_falls(
    gateway: Gateway, clock: Clock
) -> None:
    run(gateway, clock)
    collector = GatewayCollector(gateway, most_tenants=1)
    admitted = {("chat", "ela", "admitted", ""): 2.0, ("chat", "other", "admitted", ""): 0.0}
    first = samples(collector)["tokenweir_gateway_requests_total"]
    assert {key: first[key] for key in admitted} == admitted
    assert first["chat", "other", "refused", "tokens"] == 1
    give(gate_of(gateway), 1200, ("ela", 100, 100, 10), ("spo", 1000, 1000, 0))
    clock.now_ms = 1300
    ask(gate_of(gateway), 1300, "spo", 500)
    later = samples(collector)["tokenweir_gateway_requests_total"]
    assert all(later[key] >= value for key, value in first.items())
    assert later["chat", "other", "admitted", ""] == 1
    assert {key[1] for key in later} == {"ela", "other"}


def test_a_tenant_that_did_nothing_has_no_series(gateway: Gateway, clock: Clock) -> None:
    run(gateway, clock)
    give(gate_of(gateway), 1200, ("ela", 100, 100, 10), ("gua", 100, 100, 10))
    assert "gua" in gateway.stats(POOL).tenants
    requests = samples(GatewayCollector(gateway))["tokenweir_gateway_requests_total"]
    assert {key[1] for key in requests} == {"ela", "spo", "*"}


def test_openmetrics_takes_them(gateway: Gateway, clock: Clock) -> None:
    run(gateway, clock)
    registry = CollectorRegistry()
    registry.register(GatewayCollector(gateway))
    text = openmetrics.generate_latest(registry).decode()  # type: ignore[no-untyped-call]
    assert text.endswith("# EOF\n")
    for name, metric in METRICS.items():
        assert f"# TYPE {name.removesuffix('_total')} {metric.kind}" in text


def test_the_metrics_page_is_what_prometheus_reads(gateway: Gateway, clock: Clock) -> None:
    run(gateway, clock)
    with StatusServer(gateway, port=0) as server:
        status, text = get(server.port, "/metrics")
    assert status == 200
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert families["tokenweir_gateway_requests"].type == "counter"
