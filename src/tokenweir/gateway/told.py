"""What reports have told of each tenant, added up: counters that cost requests nothing."""

from collections.abc import Container
from itertools import repeat
from typing import NamedTuple

from tokenweir.records.spec import UNKNOWN
from tokenweir.records.usage import Totals


class Usage(NamedTuple):
    """Of one tenant since the gateway's start, up to the newest report."""

    ended: int = 0  # requests: done, cancelled or expired
    errors: int = 0
    uncached: int = 0  # tokens, of each kind
    cached: int = 0
    out: int = 0
    wait_ms: int = 0


class Told:
    """Usage by tenant; the names that no spec knows are one, `*`."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[str, list[int]] = {}

    def count(self, totals: Totals, known: Container[str]) -> None:
        """Add a report's totals."""
        columns = (
            totals.requests,
            totals.errors,
            totals.tokens_uncached,
            totals.tokens_cached,
            totals.tokens_out,
            totals.wait_ms,
        )
        given = (column or repeat(0) for column in columns)
        for place, *row in zip(totals.tenant, *given, strict=False):
            name = totals.names[place]
            name = name if name in known else UNKNOWN
            before = self._counts.get(name) or Usage()
            self._counts[name] = [a + b for a, b in zip(before, row, strict=True)]

    def of(self, tenant: str) -> Usage:
        """What has been told of this tenant."""
        counts = self._counts.get(tenant)
        return Usage(*counts) if counts else Usage()
