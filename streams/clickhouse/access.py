"""What the one user of this server may do, as ClickHouse's own users file.

The engine enforces it: grants without files, addresses and other servers; limits that a query can
lower and not raise.
"""

from dataclasses import dataclass
from typing import Final

_GIB: Final = 1 << 30

_GRANTS: Final = (
    "SHOW, SELECT, INSERT, ALTER, TRUNCATE, OPTIMIZE, UNDROP TABLE, KILL QUERY, dictGet",
    "CREATE DATABASE, CREATE TABLE, CREATE VIEW, CREATE ARBITRARY TEMPORARY TABLE, CREATE FUNCTION",
    "DROP DATABASE, DROP TABLE, DROP VIEW, DROP FUNCTION, MOVE PARTITION BETWEEN SHARDS",
)

# Tables that keep their data here. The others reach out, and one of them (Kafka) would keep the
# data folder from being opened again.
_TABLE_ENGINES: Final = (
    *("MergeTree", "ReplacingMergeTree", "SummingMergeTree", "AggregatingMergeTree"),
    *("CollapsingMergeTree", "VersionedCollapsingMergeTree", "CoalescingMergeTree"),
    *("Memory", "Log", "TinyLog", "StripeLog", "Null", "Set", "Join"),
    *("View", "MaterializedView", "Buffer", "Merge", "GenerateRandom"),
)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a query, and all of them, may take."""

    memory_bytes: int = 4 * _GIB  # of a query
    total_memory_bytes: int = 6 * _GIB  # of the engine
    execution_s: int = 60  # where a request does not say
    longest_s: int = 3600  # what a request may ask for
    body_bytes: int = _GIB // 2  # of a request, decompressed
    result_bytes: int = _GIB // 4  # of an answer that is held whole before it is sent
    queries: int = 8  # at once
    waiting: int = 56  # for their turn; more are refused


def users_file(limits: Limits) -> str:
    """Return the text of the users file."""
    grants = [f"GRANT {rights} ON *.*" for rights in _GRANTS]
    grants += [f"GRANT TABLE ENGINE ON {engine}" for engine in _TABLE_ENGINES]
    queries = "\n".join(f"<query>{grant}</query>" for grant in grants)
    return f"""<clickhouse>
<profiles><default>
<max_memory_usage>{limits.memory_bytes}</max_memory_usage>
<max_execution_time>{limits.execution_s}</max_execution_time>
<constraints>
<max_memory_usage><min>1</min><max>{limits.memory_bytes}</max></max_memory_usage>
<max_execution_time><max>{limits.longest_s}</max></max_execution_time>
</constraints>
</default></profiles>
<quotas><default/></quotas>
<users><default>
<password></password><profile>default</profile><quota>default</quota>
<networks><ip>::/0</ip></networks>
<grants>
{queries}
</grants>
</default></users>
</clickhouse>
"""
