"""Prometheus metrics of a gateway, read when they are asked for: requests pay nothing for them.

    REGISTRY.register(GatewayCollector(gateway))

Needs `pip install tokenweir[metrics]`. `METRICS` is the one place of their names; the table in
docs/metrics.md is made from it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from tokenweir.gateway.health import Shown, health
from tokenweir.gateway.stats import PoolStats, TenantStats

MOST_TENANTS = 200
OTHER = "other"

Kind = Literal["counter", "gauge"]
Name = Literal[
    "tokenweir_gateway_requests_total",
    "tokenweir_gateway_ended_total",
    "tokenweir_gateway_errors_total",
    "tokenweir_gateway_tokens_total",
    "tokenweir_gateway_wait_seconds_total",
    "tokenweir_gateway_spent",
    "tokenweir_gateway_waiting",
    "tokenweir_gateway_in_flight",
    "tokenweir_gateway_lease_rate_per_second",
    "tokenweir_gateway_lease_remaining",
    "tokenweir_gateway_lease_owed",
    "tokenweir_gateway_phase",
    "tokenweir_gateway_tier",
    "tokenweir_gateway_control_age_seconds",
    "tokenweir_gateway_beat_age_seconds",
    "tokenweir_gateway_unsent_age_seconds",
    "tokenweir_gateway_spool_reports",
    "tokenweir_gateway_spool_size_bytes",
    "tokenweir_gateway_lost_reports_total",
    "tokenweir_gateway_lost_rows_total",
    "tokenweir_gateway_left_reports",
    "tokenweir_gateway_healthy",
    "tokenweir_gateway_info",
]


@dataclass(frozen=True, slots=True)
class Metric:
    """What a metric is, and its name and unit in OpenTelemetry, which give the Prometheus name."""

    kind: Kind
    labels: tuple[str, ...]
    otel: str
    unit: str  # UCUM, as OpenTelemetry writes units
    meaning: str


TENANT = ("pool", "tenant")
POOL = ("pool",)
METRICS: Final[Mapping[Name, Metric]] = {
    "tokenweir_gateway_requests_total": Metric(
        "counter",
        ("pool", "tenant", "outcome", "reason"),
        "tokenweir.gateway.requests",
        "{request}",
        "requests by what was decided: admitted, refused, would_refuse (shadow mode), and why",
    ),
    "tokenweir_gateway_ended_total": Metric(
        "counter",
        TENANT,
        "tokenweir.gateway.ended",
        "{request}",
        "admitted requests that have ended: done, cancelled or expired",
    ),
    "tokenweir_gateway_errors_total": Metric(
        "counter", TENANT, "tokenweir.gateway.errors", "{request}", "of those, with an error"
    ),
    "tokenweir_gateway_tokens_total": Metric(
        "counter",
        ("pool", "tenant", "kind"),
        "tokenweir.gateway.tokens",
        "{token}",
        "tokens used, by kind: uncached, cached, out",
    ),
    "tokenweir_gateway_wait_seconds_total": Metric(
        "counter", TENANT, "tokenweir.gateway.wait", "s", "time that requests waited"
    ),
    "tokenweir_gateway_spent": Metric(
        "gauge",
        TENANT,
        "tokenweir.gateway.spent",
        "{token}",
        "charged tokens since the start, estimates of what is in flight included",
    ),
    "tokenweir_gateway_waiting": Metric(
        "gauge", TENANT, "tokenweir.gateway.waiting", "{request}", "requests that wait"
    ),
    "tokenweir_gateway_in_flight": Metric(
        "gauge", TENANT, "tokenweir.gateway.in_flight", "{request}", "admitted requests that run"
    ),
    "tokenweir_gateway_lease_rate_per_second": Metric(
        "gauge",
        TENANT,
        "tokenweir.gateway.lease.rate",
        "{token}/s",
        "charged tokens a second that flow into the lease now",
    ),
    "tokenweir_gateway_lease_remaining": Metric(
        "gauge", TENANT, "tokenweir.gateway.lease.remaining", "{token}", "what is left of the lease"
    ),
    "tokenweir_gateway_lease_owed": Metric(
        "gauge", TENANT, "tokenweir.gateway.lease.owed", "{token}", "what has been overdrawn"
    ),
    "tokenweir_gateway_phase": Metric(
        "gauge",
        ("pool", "phase"),
        "tokenweir.gateway.phase",
        "",
        "1 for what is in force: none, lease, floor or ended; 0 for the others",
    ),
    "tokenweir_gateway_tier": Metric(
        "gauge", ("pool", "tier"), "tokenweir.gateway.tier", "", "1 for the newest decision's tier"
    ),
    "tokenweir_gateway_control_age_seconds": Metric(
        "gauge",
        POOL,
        "tokenweir.gateway.control.age",
        "s",
        "age of the newest decision, in pool time",
    ),
    "tokenweir_gateway_beat_age_seconds": Metric(
        "gauge",
        POOL,
        "tokenweir.gateway.beat.age",
        "s",
        "since a report was last due: more than half an interval when the event loop is blocked",
    ),
    "tokenweir_gateway_unsent_age_seconds": Metric(
        "gauge",
        POOL,
        "tokenweir.gateway.unsent.age",
        "s",
        "age of the oldest report that is not acknowledged; absent when all are",
    ),
    "tokenweir_gateway_spool_reports": Metric(
        "gauge", POOL, "tokenweir.gateway.spool.reports", "{report}", "reports in the spool"
    ),
    "tokenweir_gateway_spool_size_bytes": Metric(
        "gauge", POOL, "tokenweir.gateway.spool.size", "By", "what they take"
    ),
    "tokenweir_gateway_lost_reports_total": Metric(
        "counter",
        POOL,
        "tokenweir.gateway.lost.reports",
        "{report}",
        "reports that did not fit the spool",
    ),
    "tokenweir_gateway_lost_rows_total": Metric(
        "counter", POOL, "tokenweir.gateway.lost.rows", "{row}", "rows of requests in them"
    ),
    "tokenweir_gateway_left_reports": Metric(
        "gauge",
        (),
        "tokenweir.gateway.left.reports",
        "{report}",
        "reports that earlier processes left on disk and that are not sent yet",
    ),
    "tokenweir_gateway_healthy": Metric(
        "gauge", (), "tokenweir.gateway.healthy", "", "1 while `/healthz` answers 200, else 0"
    ),
    "tokenweir_gateway_info": Metric(
        "gauge", ("gateway",), "tokenweir.gateway.info", "", "1; the id that reports carry"
    ),
}

Samples = dict[Name, dict[tuple[str, ...], float]]


class GatewayCollector(Collector):
    """Reads `gateway.stats` at each scrape, from whichever thread that comes.

    A pool has series for the first `most_tenants` tenants that did anything here; what came later
    is added up as tenant `other`. So a counter never falls, and there is a bound.
    """

    def __init__(self, gateway: Shown, most_tenants: int = MOST_TENANTS) -> None:
        self._gateway = gateway
        self._most = most_tenants
        self._named: dict[str, set[str]] = {pool: set() for pool in gateway.pools}

    def collect(self) -> Iterator[Family]:
        """All metrics, each with what is known of it."""
        samples: Samples = {name: {} for name in METRICS}
        pools = [self._gateway.stats(pool) for pool in self._gateway.pools]
        samples["tokenweir_gateway_info"][self._gateway.id,] = 1
        samples["tokenweir_gateway_healthy"][()] = health(pools).ok
        samples["tokenweir_gateway_left_reports"][()] = self._gateway.left_reports
        for pool in pools:
            _pool(samples, pool)
            for tenant in pool.tenants.values():
                if _is_active(tenant):
                    _tenant(samples, pool.pool, self._label(pool.pool, tenant.tenant), tenant)
        for name, found in samples.items():
            yield _family(name, found)

    def _label(self, pool: str, tenant: str) -> str:
        named = self._named[pool]
        if tenant not in named and len(named) < self._most:
            named.add(tenant)
        return tenant if tenant in named else OTHER


def _family(name: Name, found: Mapping[tuple[str, ...], float]) -> Family:
    metric = METRICS[name]
    made = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family: Family = made(name, metric.meaning, labels=metric.labels)
    for labels, value in found.items():
        family.add_metric(labels, value)  # type: ignore[attr-defined]  # both kinds have it
    return family


def _pool(samples: Samples, pool: PoolStats) -> None:
    of = (pool.pool,)
    for phase in ("none", "lease", "floor", "ended"):
        samples["tokenweir_gateway_phase"][*of, phase] = pool.phase == phase
    if pool.tier is not None:
        samples["tokenweir_gateway_tier"][*of, pool.tier] = 1
    ages: Iterable[tuple[Name, int | None]] = (
        ("tokenweir_gateway_control_age_seconds", pool.control_age_ms),
        ("tokenweir_gateway_beat_age_seconds", pool.beat_age_ms),
        ("tokenweir_gateway_unsent_age_seconds", pool.unsent_age_ms),
    )
    for name, age_ms in ages:
        if age_ms is not None:
            samples[name][of] = age_ms / 1000
    samples["tokenweir_gateway_spool_reports"][of] = pool.spool_reports
    samples["tokenweir_gateway_spool_size_bytes"][of] = pool.spool_bytes
    samples["tokenweir_gateway_lost_reports_total"][of] = pool.lost_reports
    samples["tokenweir_gateway_lost_rows_total"][of] = pool.lost_rows


def _is_active(tenant: TenantStats) -> bool:
    return bool(
        tenant.admitted or tenant.refused or tenant.would_refuse or tenant.waiting or tenant.owed
    )


def _tenant(samples: Samples, pool: str, label: str, tenant: TenantStats) -> None:
    def add(name: Name, value: float, *labels: str) -> None:
        key = (pool, label, *labels)
        samples[name][key] = samples[name].get(key, 0) + value

    add("tokenweir_gateway_requests_total", tenant.admitted, "admitted", "")
    for reason, count in tenant.refused.items():
        add("tokenweir_gateway_requests_total", count, "refused", reason)
    for reason, count in tenant.would_refuse.items():
        add("tokenweir_gateway_requests_total", count, "would_refuse", reason)
    told = tenant.told
    add("tokenweir_gateway_ended_total", told.ended)
    add("tokenweir_gateway_errors_total", told.errors)
    add("tokenweir_gateway_tokens_total", told.uncached, "uncached")
    add("tokenweir_gateway_tokens_total", told.cached, "cached")
    add("tokenweir_gateway_tokens_total", told.out, "out")
    add("tokenweir_gateway_wait_seconds_total", told.wait_ms / 1000)
    add("tokenweir_gateway_spent", tenant.spent)
    add("tokenweir_gateway_waiting", tenant.waiting)
    add("tokenweir_gateway_in_flight", tenant.in_flight)
    add("tokenweir_gateway_lease_rate_per_second", tenant.rate / 1000)
    add("tokenweir_gateway_lease_remaining", tenant.remaining)
    add("tokenweir_gateway_lease_owed", tenant.owed)
