"""Which records of the usage log count: the same ones as in the control plane."""

from collections.abc import Sequence

from tokenweir.core.fold import COLUMNS, MOST, MOST_AGE_MS, MOST_TOKENS, SIGNED
from tokenweir.errors import BadRecord
from tokenweir.history.rows import Record
from tokenweir.records.spec import PoolSpec
from tokenweir.records.usage import CapacityReport, QuotaCeiling, UsageReport
from tokenweir.topics import partition_of
from tokenweir.wire import decode

UsageRecord = UsageReport | PoolSpec | CapacityReport | QuotaCeiling


def readable(record: Record, partitions: int | None) -> UsageRecord:
    """The message in a record of the usage log; raises `BadRecord`.

    `partitions` of the topic, to check that the pool belongs here; None where that is known.
    """
    message = decode(record.value)
    if not isinstance(message, UsageRecord):
        raise BadRecord(f"a {type(message).__name__} does not belong in the usage topic")
    if record.key != message.pool.encode():
        raise BadRecord(f"the key {record.key!r} is not the record's pool {message.pool!r}")
    if partitions is not None:
        expected = partition_of(message.pool, partitions)
        if expected != record.place.partition:
            raise BadRecord(f"pool {message.pool!r} belongs on partition {expected}")
    return message


def check_report(report: UsageReport, clock_ms: int) -> None:
    """Raise `BadRecord` for a report that cannot be; `clock_ms` is its pool's time."""
    if report.sequence < 1:
        raise BadRecord(f"sequence is {report.sequence}: 1 or more is allowed")
    if not 0 <= report.age_ms <= MOST_AGE_MS:
        raise BadRecord(f"age_ms is {report.age_ms}: 0 to {MOST_AGE_MS} is allowed")
    if not 0 <= report.applied <= clock_ms:
        raise BadRecord(f"applied is {report.applied}: 0 to {clock_ms} is allowed")
    totals = report.totals
    rows = len(totals.tenant)
    for name in ("tenant", "user"):
        _check_range(name, getattr(totals, name), rows, 0, len(totals.names) - 1)
        if len(getattr(totals, name)) != rows:
            raise BadRecord(f"totals.{name} does not fit {rows} rows")
    for name in COLUMNS:
        most = MOST.get(name, MOST_TOKENS)
        _check_range(name, getattr(totals, name), rows, -most if name in SIGNED else 0, most)


def _check_range(name: str, column: Sequence[int], rows: int, least: int, most: int) -> None:
    if not column:
        return
    if len(column) != rows:
        raise BadRecord(f"totals.{name} has {len(column)} rows: 0 or {rows} are allowed")
    for worst in (min(column), max(column)):
        if not least <= worst <= most:
            raise BadRecord(f"totals.{name} has {worst}: {least} to {most} is allowed")
