"""The figures behind a decision, for the journal."""

import numpy as np

from tokenweir.core.decide import Verdict
from tokenweir.core.occupancy import KV, SEQUENCES, UNIT
from tokenweir.core.pool import Pool, stacked
from tokenweir.core.terms import Bools, Ints
from tokenweir.records.journal import GatewayFigures, TenantFigures
from tokenweir.records.spec import CLASSES


def tenant_figures(pool: Pool, verdict: Verdict) -> TenantFigures:
    """What the decision was taken on, for every tenant that is not idle."""
    measures, granted, tally, terms = verdict.measures, verdict.grants, pool.tally, pool.terms
    shown = np.flatnonzero(_active(pool, verdict))
    columns = {
        "baseline": terms.baseline,
        "demand": measures.demand,
        "rate": tally.rate,
        "used": measures.used,
        "weight": verdict.weight,
        "floor": granted.floor,
        "grant": granted.grant,
        "leased": verdict.leased.given,
        "debt": tally.debt,
        "refused": tally.refused,
        "refused_tokens": measures.refused_tokens,
        "queued": measures.queued,
        "spent": measures.spent,
        "borrowed": granted.borrowed,
    }
    figures = stacked([*columns.values()], len(terms.names))[:, shown].tolist()
    return TenantFigures(
        tenant=[*map(terms.names.__getitem__, shown.tolist())],
        service_class=[*map(CLASSES.__getitem__, terms.rank[shown].tolist())],
        sequences=_occupied(verdict, SEQUENCES, shown),
        kv_bytes=_occupied(verdict, KV, shown),
        **dict(zip(columns, figures, strict=True)),
    )


def _occupied(verdict: Verdict, kind: int, shown: Ints) -> list[int]:
    granted = verdict.occupancies[kind]
    if granted is None:
        return []
    listed: list[int] = (granted.grant[shown] * UNIT[kind]).tolist()
    return listed


def _active(pool: Pool, verdict: Verdict) -> Bools:
    return (
        (verdict.measures.demand > 0)
        | (verdict.measures.used > 0)
        | (verdict.grants.grant > 0)
        | (verdict.leased.given > 0)
        | (pool.tally.debt > 0)
        | (pool.tally.refused > 0)
    )


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
