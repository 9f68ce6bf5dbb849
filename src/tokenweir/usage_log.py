"""The messages of the usage topic, and which of them count: read alike live and in review."""

from dataclasses import dataclass
from functools import lru_cache

from tokenweir.core.step import UsageRecord
from tokenweir.errors import BadRecord
from tokenweir.records.spec import PoolSpec
from tokenweir.records.usage import CapacityReport, QuotaCeiling, UsageReport
from tokenweir.topics import partition_of
from tokenweir.wire import decode

USAGE_KINDS = (UsageReport, PoolSpec, CapacityReport, QuotaCeiling)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the usage topic, however it was read."""

    offset: int
    append_ms: int  # the broker's append time
    key: bytes | None
    value: bytes | None


def read_usage(message: Message, partition: int, partitions: int) -> UsageRecord:
    """The record of a message of this partition, of so many.

    Raises `BadRecord` for one that does not count: what no version of ours has written, another
    kind of record, another key than its pool's, or a place where its pool is not at home.
    """
    record = decode(message.value)
    if not isinstance(record, USAGE_KINDS):
        raise BadRecord(f"a {type(record).__name__} does not belong in the usage topic")
    if message.key != record.pool.encode():
        raise BadRecord(f"the key {message.key!r} is not the record's pool {record.pool!r}")
    check_home(record.pool, partition, partitions)
    return record


@lru_cache(maxsize=4096)
def check_home(pool: str, partition: int, partitions: int) -> None:
    """Raises `BadRecord` unless this is the pool's partition, of so many."""
    if not pool or "/" in pool:
        raise BadRecord(f"the pool's name {pool!r} is empty or has a slash, which keys need")
    expected = partition_of(pool, partitions)
    if expected != partition:
        raise BadRecord(
            f"pool {pool!r} on partition {partition}, expected {expected}: "
            "produce with Kafka's default partitioner (murmur2 of the key)"
        )
