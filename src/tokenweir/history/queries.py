"""What people ask, as values: `UsageByTenant(pool, since, until).sql()` is text and parameters.

Ranges are pool time, `since` included and `until` not; instants need a zone. Answers do not depend
on the server's time zone. `read` runs a query and gives its rows, typed.
"""

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Protocol, TypeVar

from clickhouse_connect.driver.client import Client

from tokenweir.history.answers import (
    Change,
    Decision,
    Figures,
    HourUsage,
    Progress,
    Refusals,
    TenantUsage,
    TimeInTier,
)
from tokenweir.history.client import answered
from tokenweir.history.instants import ms_of

Row = TypeVar("Row", covariant=True)
Sql = tuple[str, dict[str, Any]]


class Query(Protocol[Row]):
    """A question whose answer is rows of one type, with a field a column."""

    @property
    def row(self) -> type[Row]:
        """The type of the answer's rows."""

    def sql(self) -> Sql:
        """The text, with ClickHouse's {name:Type} placeholders, and the parameters."""


def read(client: Client, query: Query[Row]) -> list[Row]:
    """The answer's rows. Raises `Unavailable` with ClickHouse's words when there is none."""
    text, parameters = query.sql()
    with answered(type(query).__name__):
        found = client.query(text, parameters=parameters)
    return [
        query.row(**dict(zip(found.column_names, row, strict=True))) for row in found.result_rows
    ]


ENDED = "status IN ('done', 'cancelled', 'expired')"
USE = f"""
    tenant,
    uniqExactIf(logical_request_id, status != 'part') AS requests,
    countIf(status != 'part') AS attempts,
    countIf({ENDED}) AS admitted,
    countIf(status = 'refused') AS refused,
    countIf(error AND {ENDED}) AS errors,
    uniqExactIf((logical_request_id, attempt), estimated) AS estimated,
    sum(tokens_uncached) + sum(tokens_cached) AS input_tokens,
    sum(tokens_cached) AS cached_tokens,
    sum(tokens_cache_write) AS cache_write_tokens,
    sum(tokens_out) AS output_tokens,
    sum(refused_tokens) AS refused_tokens
"""


def _during(time: str) -> str:
    # Nothing is appended before it happens, but for what brokers' clocks differ: the second line
    # only spares partitions.
    return f"""pool = {{pool:String}}
    AND append_time >= fromUnixTimestamp64Milli({{since:Int64}}, 'UTC') - toIntervalHour(1)
    AND {time} >= fromUnixTimestamp64Milli({{since:Int64}}, 'UTC')
    AND {time} < fromUnixTimestamp64Milli({{until:Int64}}, 'UTC')"""


@dataclass(frozen=True, slots=True)
class Range:
    """What happened in one pool during a time."""

    pool: str
    since: datetime
    until: datetime

    @property
    def given(self) -> dict[str, Any]:
        """The parameters."""
        return {"pool": self.pool, "since": ms_of(self.since), "until": ms_of(self.until)}


@dataclass(frozen=True, slots=True)
class UsageByTenant(Range):
    """Who used what; requests count where they end."""

    row = TenantUsage

    def sql(self) -> Sql:
        """Over the usage's own time."""
        text = f"SELECT {USE} FROM usage WHERE {_during('event_time')}"
        return f"{text} GROUP BY tenant ORDER BY tenant", self.given


@dataclass(frozen=True, slots=True)
class UsageByHourOfWeek(Range):
    """In which hours of the week a pool is used; hours are those of `zone`'s clock."""

    zone: str = "UTC"

    row = HourUsage

    def sql(self) -> Sql:
        """Over the usage's own time; hours in which nothing was used have no row."""
        text = f"""SELECT
    toInt64(toDayOfWeek(event_time, 0, {{zone:String}})) AS day,
    toInt64(toHour(event_time, {{zone:String}})) AS hour,
    uniqExact(tenant) AS tenants,
    uniqExactIf(logical_request_id, status != 'part') AS requests,
    countIf(status = 'refused') AS refused,
    sum(tokens_uncached) + sum(tokens_cached) AS input_tokens,
    sum(tokens_out) AS output_tokens,
    sum(refused_tokens) AS refused_tokens
FROM usage WHERE {_during("event_time")}
GROUP BY day, hour ORDER BY day, hour"""
        return text, {**self.given, "zone": self.zone}


@dataclass(frozen=True, slots=True)
class TotalsOf:
    """All that one usage log says of a pool."""

    pool: str
    topic: str

    row = TenantUsage

    def sql(self) -> Sql:
        """Of any time."""
        text = f"SELECT {USE} FROM usage WHERE pool = {{pool:String}} AND topic = {{topic:String}}"
        given = {"pool": self.pool, "topic": self.topic}
        return f"{text} GROUP BY tenant ORDER BY tenant", given


@dataclass(frozen=True, slots=True)
class RefusalsByReason(Range):
    """Who was refused and why."""

    row = Refusals

    def sql(self) -> Sql:
        """Over the usage's own time."""
        return (
            "SELECT tenant, reason, count() AS refused, sum(refused_tokens) AS refused_tokens"
            f" FROM usage WHERE {_during('event_time')} AND status = 'refused'"
            " GROUP BY tenant, reason ORDER BY tenant, reason",
            self.given,
        )


@dataclass(frozen=True, slots=True)
class DecisionsOf(Range):
    """What was decided, oldest first."""

    row = Decision

    def sql(self) -> Sql:
        """By the boundary's time."""
        return (
            f"SELECT {_names(Decision)} FROM decisions WHERE {_during('at')} ORDER BY at",
            self.given,
        )


@dataclass(frozen=True, slots=True)
class TierTime(Range):
    """How long a pool stood in each tier; a tier holds until the next decision, or `until`."""

    row = TimeInTier

    def sql(self) -> Sql:
        """The decision that held at `since` counts from there."""
        since = "fromUnixTimestamp64Milli({since:Int64}, 'UTC')"
        until = "fromUnixTimestamp64Milli({until:Int64}, 'UTC')"
        return (
            f"""SELECT tier, sum(dateDiff('millisecond', begins, ends)) AS ms FROM (
    SELECT tier, greatest(at, {since}) AS begins, leadInFrame(at, 1, {until}) OVER (
        ORDER BY at ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS ends
    FROM decisions WHERE pool = {{pool:String}} AND at < {until} AND at >= (
        SELECT max(at) FROM decisions WHERE pool = {{pool:String}} AND at <= {since})
) GROUP BY tier ORDER BY ms DESC, tier""",
            self.given,
        )


@dataclass(frozen=True, slots=True)
class AuditOf(Range):
    """Every change that took from somebody, oldest first."""

    row = Change

    def sql(self) -> Sql:
        """By pool time."""
        text = f"SELECT {_names(Change)} FROM audit WHERE {_during('at')} ORDER BY at, id"
        return text, self.given


@dataclass(frozen=True, slots=True)
class FiguresAt:
    """What the decision that held at an instant was taken on."""

    pool: str
    at: datetime

    row = Figures

    def sql(self) -> Sql:
        """Of the newest decision at or before the instant."""
        return (
            f"SELECT {_names(Figures)} FROM grants WHERE pool = {{pool:String}} AND at = ("
            "SELECT max(at) FROM decisions WHERE pool = {pool:String}"
            " AND at <= fromUnixTimestamp64Milli({at:Int64}, 'UTC')) ORDER BY tenant",
            {"pool": self.pool, "at": ms_of(self.at)},
        )


@dataclass(frozen=True, slots=True)
class ReadSoFar:
    """How far the history holds the usage log, partition by partition."""

    topic: str

    row = Progress

    def sql(self) -> Sql:
        """Each record of the log has a row in `records`."""
        return (
            "SELECT partition, toInt64(max(offset)) + 1 AS next_offset FROM records"
            " WHERE topic = {topic:String} GROUP BY topic, partition ORDER BY partition",
            {"topic": self.topic},
        )


def _names(row: type) -> str:
    return ", ".join(field.name for field in fields(row))
