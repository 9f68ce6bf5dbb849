"""The history's tables as values.

Each row says which record of which log it comes from: topic, partition and offset (and `index`,
where a record has several rows), so that the tables themselves know what they hold (H1, H2).
Times are `DateTime64(3, 'UTC')`; rates are milli-tokens/s, ratios millionths, amounts tokens.
"""

from collections.abc import Iterator

from tokenweir.history.ddl import Column, Table, View

TIME = "DateTime64(3, 'UTC')"
NAME = "LowCardinality(String)"
COUNT = "Int64"
SMALL = "Int32"

DELTA = "Delta, ZSTD(1)"  # what grows in steps: offsets, times
T64 = "T64, ZSTD(1)"  # numbers that are mostly small


def _place(*, index: bool) -> Iterator[Column]:
    yield Column("topic", NAME, doc="The Kafka record that the row comes from.")
    yield Column("partition", "UInt32", doc="Of the Kafka record.")
    yield Column("offset", "UInt64", DELTA, "Of the Kafka record.")
    if index:
        yield Column("index", "UInt32", T64, "Row of the record, from 0.")
    yield Column("append_time", TIME, DELTA, "When the broker appended the record.")
    yield Column("pool", NAME)


def _at(doc: str, name: str = "at") -> Column:
    return Column(name, TIME, DELTA, doc)


def _counts(*described: tuple[str, str]) -> Iterator[Column]:
    return (Column(name, COUNT, T64, doc) for name, doc in described)


def _names(*described: tuple[str, str]) -> Iterator[Column]:
    return (Column(name, NAME, doc=doc) for name, doc in described)


USAGE = Table(
    "usage",
    (
        *_place(index=True),
        _at("When it happened: append time - age (T5).", "event_time"),
        Column("gateway", NAME),
        Column("sequence", COUNT, DELTA, "Of the gateway's report."),
        Column("logical_request_id", "String", doc="The same for each attempt of one request."),
        Column("attempt", SMALL, T64, "From 1."),
        Column("tenant", NAME),
        Column("user", "String"),
        *_names(
            ("model", ""),
            ("operation", "What was asked, as in gen_ai.operation.name."),
            ("provider_tier", "The provider's price tier."),
            ("status", "part: more rows follow; done, cancelled, refused, expired: it ended."),
            ("reason", "Why it was refused, cancelled or failed."),
            ("flow", "online or batch."),
        ),
        Column("priority", SMALL, T64, "1, 2 or 3 inside its tenant."),
        *_counts(
            ("tokens_uncached", "Input tokens no cache served, those written to one included."),
            ("tokens_cache_write", "Of these, written to a cache."),
            ("tokens_cached", "Input tokens that a cache served."),
            ("tokens_out", "Output tokens, reasoning included."),
            ("refused_tokens", "Estimate of a refused request, in charged tokens."),
        ),
        Column("estimated", "Bool", doc="The tokens are an estimate."),
        Column("error", "Bool", doc="The request failed."),
        *_counts(
            ("kv_bytes", "KV-cache bytes that the request held."),
            ("wait_ms", "How long it waited for admission."),
            ("duration_ms", "From admission to this row."),
        ),
        Column("decision_at", TIME, DELTA, "The decision it was admitted under; 1970: none."),
    ),
    ("pool", "tenant", "event_time", "partition", "offset", "index"),
    "A row an increment of a request (T6): rows of one attempt add up.",
    time="event_time",
)

# What a report says of itself, to be compared with its increments.
SAID = (
    "requests",
    "errors",
    "tokens_uncached",
    "tokens_cached",
    "tokens_out",
    "refused",
    "refused_tokens",
)

RECORDS = Table(
    "records",
    (
        *_place(index=False),
        _at("When the report was cut: append time - age."),
        *_names(
            ("kind", "UsageReport, PoolSpec, ...; empty: unreadable."),
            ("outcome", "taken, repeat (R1), unbalanced, unreadable (its requests), bad."),
        ),
        Column("reason", "String", doc="Why, where it was not simply taken."),
        Column("gateway", NAME),
        Column("sequence", COUNT, DELTA),
        *_counts(("missing", "Reports before this one that never came (R1).")),
        Column("applied", TIME, DELTA, "The newest decision that the gateway obeys; 1970: none."),
        Column("closing", "Bool"),
        *_counts(
            ("rows", "Rows of it in `usage`."),
            *((f"said_{name}", "Sum of the report's totals.") for name in SAID),
        ),
    ),
    ("topic", "partition", "offset"),
    "A row a record of the usage log: what became of it.",
)

DECISIONS = Table(
    "decisions",
    (
        *_place(index=False),
        _at("The boundary, in pool time."),
        Column("id", "String", doc="pool@ms; the same when it is made again (S6)."),
        Column("checksum", "UInt64", "NONE", "Of the entry's bytes (S6)."),
        *_counts(("spec_version", "")),
        *_names(("mode", ""), ("tier", ""), ("breaker", ""), ("breaker_refuses", "")),
        *_counts(
            ("interval_ms", ""),
            ("longest_request_ms", ""),
            ("probe_rate", "Milli-tokens/s that may probe while half open."),
            ("level", "The smoothed water level of the firm use, millionths."),
            ("level_now", "The same over the window, not smoothed."),
            ("lent", "The level of what spot and preemptible take, millionths."),
            ("alpha", "Millionths."),
            ("capacity", "Milli-tokens/s."),
            ("granted", "Sum of the grants, milli-tokens/s."),
            ("used", "Charged tokens of all tenants over the window."),
            ("budget", "Charged tokens that the capacity allowed over the window."),
        ),
        *_names(
            ("priority_threshold", "Classes below this one are refused."),
            ("unknown_class", "Of names that no spec knows."),
        ),
        Column("parts", SMALL, T64, "Lease records a gateway."),
        *_counts(
            ("weight_uncached", "Charged tokens of one, millionths."),
            ("weight_cached", "Charged tokens of one, millionths."),
            ("weight_out", "Charged tokens of one, millionths."),
            ("tenants", "Rows of it in `grants`."),
        ),
        Column("class.name", f"Array({NAME})", doc="Lowest first."),
        Column("class.action", f"Array({NAME})"),
        Column("gateway.name", f"Array({NAME})"),
        Column("gateway.sequence", f"Array({COUNT})"),
        Column("gateway.applied", f"Array({TIME})"),
        Column("gateway.seen", f"Array({TIME})"),
        Column("gateway.leased", f"Array({COUNT})"),
        Column("gateway.missing", f"Array({COUNT})"),
    ),
    ("pool", "at"),
    "A row a decision.",
)

GRANTS = Table(
    "grants",
    (
        *_place(index=True),
        _at("The decision's boundary, in pool time."),
        Column("tenant", NAME),
        Column("service_class", NAME),
        *_counts(
            ("baseline", "Milli-tokens/s."),
            ("demand", "Spent, refused and queued, milli-tokens/s."),
            ("rate", "Smoothed rate of use, milli-tokens/s."),
            ("used", "Charged tokens over the window."),
            ("weight", "Millionths."),
            ("floor", "What is kept for it now, milli-tokens/s."),
            ("grant", "What it may spend until the next decision, milli-tokens/s."),
            ("leased", "What its gateways may hold, milli-tokens/s (L2)."),
            ("debt", "Millionths."),
            ("refused", "Requests refused since the last decision."),
            ("refused_tokens", "Their estimates, charged tokens."),
            ("queued", "Requests that wait."),
            ("spent", "Charged tokens since the last decision."),
        ),
    ),
    ("pool", "tenant", "at"),
    "A row a tenant a decision; idle tenants are left out.",
)

QUOTAS = Table(
    "quotas",
    (
        *_place(index=True),
        _at("The decision's boundary, in pool time."),
        Column("tenant", NAME),
        Column("user", "String", doc="Empty: the tenant as a whole; *: each user not seen yet."),
        Column("window_id", "String", doc="Its window, as day/2026-11-29."),
        *_counts(
            ("tokens", "What may be spent in the window, charged tokens."),
            ("spent", "What was spent of it, charged tokens."),
            ("given", "What all gateways together may have spent of it (Q1)."),
        ),
    ),
    ("pool", "tenant", "user", "at"),
    "A row a window of a quota that is in use, a decision.",
)

AUDIT = Table(
    "audit",
    (
        *_place(index=True),
        _at("In pool time."),
        Column("id", "String", doc="The same when it is written again (S6)."),
        Column("checksum", "UInt64", "NONE", "Of the entry's bytes (S6)."),
        Column(
            "kind",
            NAME,
            doc="As in the journal; of the history itself: unbalanced_report,"
            " unreadable_requests, bad_record, break, alarm.",
        ),
        Column("subject", "String", doc="The tenant, gateway, pool or entry it is about."),
        Column("lost", "Array(String)"),
        Column("gained", "Array(String)"),
        *_counts(("amount", "")),
        Column("unit", NAME),
        Column("before", "String"),
        Column("after", "String"),
        Column("why", "String"),
    ),
    ("pool", "at", "id"),
    "A row a change that took from somebody, or that does not add up.",
)

TABLES = (USAGE, RECORDS, DECISIONS, GRANTS, QUOTAS, AUDIT)

GATEWAYS = View(
    "gateways",
    "SELECT pool, at, name AS gateway, sequence, applied, seen, leased, missing FROM decisions"
    " ARRAY JOIN gateway.name AS name, gateway.sequence AS sequence, gateway.applied AS applied,"
    " gateway.seen AS seen, gateway.leased AS leased, gateway.missing AS missing",
    "A row a gateway a decision.",
)

VIEWS = (GATEWAYS,)

# What a record of each log fills, in the order of the inserts. The last table has a row of every
# record that matters and is written last, so what it holds is held by all: reading goes on there.
OF_USAGE = (USAGE, AUDIT, RECORDS)
OF_JOURNAL = (GRANTS, QUOTAS, AUDIT, DECISIONS)
