"""What one decision was and what came of it, as queries: `tokenweir explain` is made of them.

With `queries.FiguresAt` and `queries.AuditOf` they are the whole story.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime

from tokenweir.history.instants import ms_of
from tokenweir.history.queries import Sql


@dataclass(frozen=True, slots=True)
class Told:
    """One decision, whole. `class_names` are lowest first, with the action of each beside them."""

    at: datetime
    id: str
    spec_version: int
    mode: str
    tier: str
    breaker: str
    breaker_refuses: str
    probe_rate: int
    interval_ms: int
    level: int
    level_now: int
    lent: int
    alpha: int
    capacity: int
    granted: int
    used: int
    budget: int
    priority_threshold: str
    class_names: Sequence[str]
    class_actions: Sequence[str]


@dataclass(frozen=True, slots=True)
class GatewayTold:
    """One gateway as the decision saw it; `leased` is in milli-tokens/s."""

    gateway: str
    sequence: int
    applied: datetime
    seen: datetime
    leased: int
    missing: int


@dataclass(frozen=True, slots=True)
class Ends:
    """How requests ended that one decision let in or refused, by reason; charged tokens."""

    tenant: str
    status: str
    reason: str
    requests: int
    refused_tokens: int


@dataclass(frozen=True, slots=True)
class NewestDecisions:
    """The newest decisions up to an instant, newest first."""

    pool: str
    at: datetime
    count: int = 2

    row = Told

    def sql(self) -> Sql:
        """By the boundary's time."""
        names = ", ".join(_COLUMNS.get(field.name, field.name) for field in fields(Told))
        return (
            f"SELECT {names} FROM decisions WHERE pool = {{pool:String}}"
            " AND at <= fromUnixTimestamp64Milli({at:Int64}, 'UTC')"
            " ORDER BY at DESC LIMIT {count:UInt32}",
            {"pool": self.pool, "at": ms_of(self.at), "count": self.count},
        )


@dataclass(frozen=True, slots=True)
class GatewaysAt:
    """The gateways that one decision saw."""

    pool: str
    at: datetime

    row = GatewayTold

    def sql(self) -> Sql:
        """Of exactly this boundary."""
        names = ", ".join(field.name for field in fields(GatewayTold))
        return (
            f"SELECT {names} FROM gateways WHERE pool = {{pool:String}}"
            " AND at = fromUnixTimestamp64Milli({at:Int64}, 'UTC') ORDER BY gateway",
            {"pool": self.pool, "at": ms_of(self.at)},
        )


@dataclass(frozen=True, slots=True)
class EndsUnder:
    """What became of the requests that this decision let in or refused, within a day."""

    pool: str
    at: datetime

    row = Ends

    def sql(self) -> Sql:
        """Each attempt counts where it ended."""
        at = "fromUnixTimestamp64Milli({at:Int64}, 'UTC')"
        return (
            "SELECT tenant, status, reason, count() AS requests,"
            " sum(refused_tokens) AS refused_tokens"
            f" FROM usage WHERE pool = {{pool:String}} AND decision_at = {at}"
            f" AND append_time >= {at} - toIntervalHour(1) AND event_time >= {at}"
            f" AND event_time < {at} + toIntervalDay(1) AND status != 'part'"
            " GROUP BY tenant, status, reason ORDER BY tenant, status, reason",
            {"pool": self.pool, "at": ms_of(self.at)},
        )


_COLUMNS = {
    "class_names": "`class.name` AS class_names",
    "class_actions": "`class.action` AS class_actions",
}
