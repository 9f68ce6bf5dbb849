"""The figures behind a decision, for the journal."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tokenweir.core.decide import Verdict
from tokenweir.core.occupancy import KV, SEQUENCES, UNIT
from tokenweir.core.pool import Pool
from tokenweir.core.terms import Ints
from tokenweir.records.control import ControlDecision
from tokenweir.records.journal import (
    DecisionEntry,
    GatewayFigures,
    QuotaFigures,
    TenantFigures,
)
from tokenweir.records.spec import CLASSES

# The rows of `Shown.values`: the record's columns between the classes and what may be occupied.
VALUES = tuple(TenantFigures.__dataclass_fields__)[2:-2]
# Who has nothing of these is idle.
ACTIVE = np.array(
    [*map(VALUES.index, ("demand", "used", "grant", "leased", "debt", "refused"))], dtype=np.int64
)


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """The figures of those who are not idle, as they are computed: to be read or to be written."""

    names: list[str]
    ranks: Ints  # of their classes, shape (tenants,)
    values: Ints  # (14, tenants)
    sequences: Sequence[int]
    kv_bytes: Sequence[int]

    def __eq__(self, other: object) -> bool:
        """Whether the records are the same; arrays do not say so by themselves."""
        return isinstance(other, Shown) and self.record() == other.record()

    def record(self) -> TenantFigures:
        """The same in columns."""
        return TenantFigures(
            tenant=self.names,
            service_class=[*map(CLASSES.__getitem__, self.ranks.tolist())],
            sequences=self.sequences,
            kv_bytes=self.kv_bytes,
            **dict(zip(VALUES, self.values.tolist(), strict=True)),
        )


class Grounds(NamedTuple):
    """A decision's entry before its tenants become columns."""

    decision: ControlDecision
    tenants: Shown
    gateways: GatewayFigures
    used: int
    budget: int
    total: int
    quotas: QuotaFigures

    def record(self) -> DecisionEntry:
        """The entry."""
        return DecisionEntry(
            self.decision,
            self.tenants.record(),
            self.gateways,
            self.used,
            self.budget,
            self.total,
            self.quotas,
        )


def tenant_figures(pool: Pool, verdict: Verdict) -> Shown:
    """What the decision was taken on, for every tenant that is not idle."""
    measures, granted, tally, terms = verdict.measures, verdict.grants, pool.tally, pool.terms
    values = np.concatenate(
        (
            terms.baseline,
            measures.demand,
            tally.rate,
            measures.used,
            verdict.weight,
            granted.floor,
            granted.grant,
            verdict.leased.given,
            tally.debt,
            tally.refused,
            measures.refused_tokens,
            measures.queued,
            measures.spent,
            granted.borrowed,
        )
    ).reshape(len(VALUES), len(terms.names))
    shown = np.logical_or.reduce(values.take(ACTIVE, axis=0) > 0).nonzero()[0]
    return Shown(
        names=[terms.names[place] for place in shown.tolist()],
        ranks=terms.rank[shown],
        values=values.take(shown, axis=1),
        sequences=_occupied(verdict, SEQUENCES, shown),
        kv_bytes=_occupied(verdict, KV, shown),
    )


def _occupied(verdict: Verdict, kind: int, shown: Ints) -> list[int]:
    granted = verdict.occupancies[kind]
    if granted is None:
        return []
    listed: list[int] = (granted.grant[shown] * UNIT[kind]).tolist()
    return listed


def gateway_figures(pool: Pool, verdict: Verdict) -> GatewayFigures:
    """What the pool knows of its gateways."""
    gateways = [pool.gateways[name] for name in sorted(pool.gateways)]
    return GatewayFigures(
        gateway=[gateway.name for gateway in gateways],
        sequence=[gateway.sequence for gateway in gateways],
        applied=[gateway.applied_ms for gateway in gateways],
        seen_ms=[gateway.seen_ms for gateway in gateways],
        leased=verdict.leased.by_gateway.tolist(),
        missing=[gateway.missing for gateway in gateways],
    )
