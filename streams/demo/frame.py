"""What the view shows: a decision's entry and the run around it, as one value."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tokenweir.records.journal import DecisionEntry
from tokenweir.records.spec import RANK, UNKNOWN, ServiceClass


@dataclass(frozen=True, slots=True)
class TenantRow:
    """One tenant's figures of one decision. Rates are in charged tokens/s."""

    tenant: str
    service_class: ServiceClass
    baseline: int
    demand: int
    grant: int
    used: int  # smoothed rate
    debt: float
    refused: int  # requests, since the run began
    queued: int
    held_back: bool  # requests were refused since the last decision


@dataclass(frozen=True, slots=True)
class Frame:
    """All that one picture of the view needs; it reads no clock."""

    entry: DecisionEntry | None
    refused: Mapping[str, int] = field(default_factory=dict)  # requests, since the run began
    phase: str = "starting"
    left_s: float | None = None  # None: no end
    pool: str = ""

    def rows(self) -> list[TenantRow]:
        """The tenants of the newest decision, highest class first."""
        if self.entry is None:
            return []
        return sorted(_rows(self.entry, self.refused), key=lambda row: -RANK[row.service_class])


def _rows(entry: DecisionEntry, refused: Mapping[str, int]) -> list[TenantRow]:
    figures = entry.tenants
    return [
        TenantRow(
            tenant=tenant,
            service_class=figures.service_class[at],
            baseline=figures.baseline[at] // 1000,
            demand=figures.demand[at] // 1000,
            grant=figures.grant[at] // 1000,
            used=figures.rate[at] // 1000,
            debt=figures.debt[at] / 1e6,
            refused=refused.get(tenant, 0),
            queued=figures.queued[at],
            held_back=figures.refused[at] > 0,
        )
        for at, tenant in enumerate(figures.tenant)
        if tenant != UNKNOWN or figures.demand[at]
    ]
