"""From a record of the usage log to rows: R1 and T6 as the control plane keeps them."""

from collections.abc import Iterator

from tokenweir.errors import BadRecord
from tokenweir.history.balance import Balance, balance, described, said_of, summed
from tokenweir.history.checks import UsageRecord, check_report, readable
from tokenweir.history.increments import NONE, requests_of, usage_rows
from tokenweir.history.letters import letter
from tokenweir.history.rows import Record, Rows, one_row
from tokenweir.history.sequences import Sequences
from tokenweir.history.tables import AUDIT, RECORDS, SAID
from tokenweir.records.journal import DeadLetter
from tokenweir.records.usage import UsageReport


def fold_usage(
    sequences: Sequences, record: Record, partitions: int
) -> Iterator[Rows | DeadLetter]:
    """The rows that a record makes, the one in `records` last; `sequences` goes on.

    What the control plane cannot read it sends to the dead-letter topic itself; the history
    sends only a requests block that it alone reads.
    """
    try:
        message = _heard(sequences, record, partitions)
    except BadRecord as error:
        yield _row(record, "", "", "bad", str(error))
        return
    if isinstance(message, UsageReport):
        yield from _report(sequences, record, message)
    else:
        yield _row(record, message.pool, type(message).__name__, "taken", "")


def _heard(sequences: Sequences, record: Record, partitions: int) -> UsageRecord:
    pool = (record.key or b"").decode(errors="replace")
    message = readable(record, None if pool in sequences.clock_ms else partitions)
    clock_ms = sequences.hear(message.pool, record.append_ms)
    if isinstance(message, UsageReport):
        check_report(message, clock_ms)
    return message


def _report(
    sequences: Sequences, record: Record, report: UsageReport
) -> Iterator[Rows | DeadLetter]:
    missing = sequences.take(report.pool, report.gateway, report.sequence, record.append_ms)
    if missing is None:
        yield _reported(record, report, "repeat")
        return
    try:
        block = requests_of(report)
    except BadRecord as error:
        yield letter(record, str(error))
        yield _unreadable(record, report, str(error))
        yield _reported(record, report, "unreadable", reason=str(error), missing=missing)
        return
    if block.id:
        yield usage_rows(report, block, record.append_ms)
    found = balance(report.totals, block)
    if not found:
        yield _unbalanced(record, report, found)
    outcome = "taken" if found else "unbalanced"
    yield _reported(record, report, outcome, missing=missing, rows=len(block.id))


def _row(record: Record, pool: str, kind: str, outcome: str, reason: str) -> Rows:
    nothing = {f"said_{name}": 0 for name in SAID}
    return one_row(
        RECORDS,
        pool=pool,
        at=record.append_ms,
        kind=kind,
        outcome=outcome,
        reason=reason,
        gateway="",
        sequence=0,
        missing=0,
        applied=0,
        closing=False,
        rows=0,
        **nothing,
    )


def _reported(
    record: Record,
    report: UsageReport,
    outcome: str,
    *,
    reason: str = "",
    missing: int = 0,
    rows: int = 0,
) -> Rows:
    sums = summed(said_of(report.totals).values())
    return one_row(
        RECORDS,
        pool=report.pool,
        at=record.append_ms - report.age_ms,
        kind="UsageReport",
        outcome=outcome,
        reason=reason,
        gateway=report.gateway,
        sequence=report.sequence,
        missing=missing,
        applied=report.applied,
        closing=report.closing,
        rows=rows,
        **{f"said_{name}": value for name, value in zip(SAID, sums, strict=True)},
    )


def _unbalanced(record: Record, report: UsageReport, found: Balance) -> Rows:
    return _audit(
        record,
        report,
        "unbalanced_report",
        lost=found.differ,
        before=described(found.said),
        after=described(found.counted),
        why="the increments do not add up to the totals (before: said, after: counted)",
    )


def _unreadable(record: Record, report: UsageReport, reason: str) -> Rows:
    found = balance(report.totals, NONE)
    return _audit(
        record,
        report,
        "unreadable_requests",
        lost=found.differ,
        before=described(found.said),
        after=described(found.counted),
        why=reason,
    )


def _audit(record: Record, report: UsageReport, kind: str, **values: object) -> Rows:
    return one_row(
        AUDIT,
        pool=report.pool,
        at=record.append_ms - report.age_ms,
        id=f"{record.place}/{record.offset}",
        checksum=0,
        kind=kind,
        subject=report.gateway,
        gained=(),
        amount=report.sequence,
        unit="sequence",
        **values,
    )
