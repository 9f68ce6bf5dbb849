"""A decision's entry made by hand, for what only shows it."""

from dataclasses import dataclass

from tokenweir.records.control import ClassState, ControlDecision, Tier
from tokenweir.records.journal import DecisionEntry, GatewayFigures, TenantFigures
from tokenweir.records.spec import CLASSES, Action, ServiceClass, TokenWeights


@dataclass(frozen=True)
class Tenant:
    """Figures in tokens/s."""

    name: str
    service_class: ServiceClass
    baseline: int = 0
    demand: int = 0
    grant: int = 0
    refused: int = 0


def decision(tier: Tier = "normal", level: float = 0.5, action: Action = "none") -> ControlDecision:
    return ControlDecision(
        pool="chat",
        at_ms=1_000,
        id="chat@1000",
        spec_version=1,
        mode="enforce",
        interval_ms=1_000,
        longest_request_ms=600_000,
        tier=tier,
        breaker="closed",
        breaker_refuses="borrowers",
        probe_rate=0,
        level=round(level * 1e6),
        level_now=round(level * 1e6),
        lent=250_000,
        alpha=800_000,
        capacity=80_000_000,
        granted=60_000_000,
        priority_threshold="preemptible",
        parts=1,
        token_weights=TokenWeights(1_000_000, 100_000, 4_000_000),
        classes=[ClassState(name, action, 0, 0, "floor") for name in CLASSES],
        unknown_class="spot",
    )


def entry(
    *tenants: Tenant, tier: Tier = "normal", level: float = 0.5, action: Action = "none"
) -> DecisionEntry:
    zeros = [0] * len(tenants)
    figures = TenantFigures(
        tenant=[tenant.name for tenant in tenants],
        service_class=[tenant.service_class for tenant in tenants],
        baseline=[tenant.baseline * 1000 for tenant in tenants],
        demand=[tenant.demand * 1000 for tenant in tenants],
        rate=[min(tenant.demand, tenant.grant) * 1000 for tenant in tenants],
        used=zeros,
        weight=zeros,
        floor=zeros,
        grant=[tenant.grant * 1000 for tenant in tenants],
        leased=zeros,
        debt=zeros,
        refused=[tenant.refused for tenant in tenants],
        refused_tokens=zeros,
        queued=zeros,
        spent=zeros,
    )
    gateways = GatewayFigures([], [], [], [], [], [])
    return DecisionEntry(decision(tier, level, action), figures, gateways, used=0, budget=0)
