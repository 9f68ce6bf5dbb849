"""What is published of quotas: ceilings for gateways, and figures for the journal."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tokenweir.core.guard import Guarded
from tokenweir.core.quotas import AFTER, GIVEN, NOW, Quotas
from tokenweir.core.rations import Rations
from tokenweir.core.terms import Ints
from tokenweir.records.journal import QuotaFigures


class Ceilings(NamedTuple):
    """The ceilings of one lease record, in columns."""

    tenant: Sequence[str]
    user: Sequence[str]
    window_id: Sequence[str]
    starts_ms: Sequence[int]
    ends_ms: Sequence[int]
    tokens: Sequence[int]


def ceilings_of(quotas: Quotas, guarded: Guarded, gateway: str, places: Ints) -> Ceilings:
    """The gateway's ceilings of these accounts, the next window's within a lease life of it."""
    figures = quotas.shares[gateway].figures if len(places) else np.zeros((0, 0), dtype=np.int64)
    rows = []
    for place in places.tolist():
        tenant, user, _ = quotas.accounts.keys[place]
        windows = quotas.windows(place)
        rows.append((tenant, user, *windows.now, int(figures[GIVEN.start + NOW, place])))
        if guarded.ahead[place]:
            rows.append((tenant, user, *windows.after, int(figures[GIVEN.start + AFTER, place])))
    columns = [[*column] for column in zip(*rows, strict=True)] or [[], [], [], [], [], []]
    return Ceilings(*columns)


def quota_figures(quotas: Quotas, guarded: Guarded, rations: Rations) -> QuotaFigures:
    """The windows in use: those that gateways have ceilings for."""
    shown = guarded.shown
    keys = [quotas.accounts.keys[place] for place in shown.tolist()]
    return QuotaFigures(
        tenant=[tenant for tenant, _, _ in keys],
        user=[user for _, user, _ in keys],
        window_id=[quotas.windows(place).now.id for place in shown.tolist()],
        tokens=rations.limit[shown].tolist(),
        spent=rations.spent[shown].tolist(),
        given=guarded.given[shown].tolist(),
    )
