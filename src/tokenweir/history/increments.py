"""A report's requests block: checked, and turned into rows of the table `usage`."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

from tokenweir.errors import BadRecord
from tokenweir.history.rows import Rows
from tokenweir.history.tables import USAGE
from tokenweir.records.usage import RequestsBlock, UsageReport
from tokenweir.wire import decode_as

NAMED = ("tenant", "user", "model", "operation", "provider_tier", "reason")
TEXT = ("id", "status", "flow")
# Columns of the block that stand in the table as they are.
COPIED = (
    "attempt",
    "priority",
    "tokens_uncached",
    "tokens_cache_write",
    "tokens_cached",
    "tokens_out",
    "refused_tokens",
    "kv_bytes",
    "wait_ms",
    "duration_ms",
)
# Tokens may be negative: a correction of what was reported before.
SIGNED_OR_TEXT = (*TEXT, "tokens_uncached", "tokens_cache_write", "tokens_cached", "tokens_out")
NONE = RequestsBlock(*((),) * len(fields(RequestsBlock)))


def requests_of(report: UsageReport) -> RequestsBlock:
    """The report's increments, with every column at its full length.

    Raises `BadRecord` when the block cannot be read or its columns contradict each other.
    """
    if not report.requests:
        return NONE
    block = decode_as(RequestsBlock, report.requests)
    _check(block)
    zeros: dict[str, Any] = {name: (0,) * len(block.id) for name in _empty(block)}
    return replace(block, **zeros)


def usage_rows(report: UsageReport, block: RequestsBlock, append_ms: int) -> Rows:
    """The rows of `usage`; `block` as `requests_of` gives it."""
    cut_ms = append_ms - report.age_ms
    each: dict[str, Sequence[object]] = {
        name: [block.names[at] for at in getattr(block, name)] for name in NAMED
    }
    each |= {name: getattr(block, name) for name in (*COPIED, "status", "flow")}
    each["logical_request_id"] = block.id
    each["estimated"] = block.estimated
    each["error"] = block.error
    each["event_time"] = [cut_ms - age_ms for age_ms in block.age_ms]
    each["decision_at"] = block.decision
    same = {"pool": report.pool, "gateway": report.gateway, "sequence": report.sequence}
    return Rows(USAGE, len(block.id), same, each)


def _check(block: RequestsBlock) -> None:
    count = len(block.id)
    for field in fields(block):
        column = getattr(block, field.name)
        if field.name == "names":
            continue
        if len(column) != count and (column or field.name in TEXT):
            raise BadRecord(f"requests: {field.name} has {len(column)} values of {count}")
        if field.name not in SIGNED_OR_TEXT and column and min(column) < 0:
            raise BadRecord(f"requests: {field.name} is {min(column)}, at least 0 is allowed")
        if field.name in NAMED and count and max(column, default=0) >= len(block.names):
            raise BadRecord(f"requests: {field.name} names {max(column, default=0)}, not in names")


def _empty(block: RequestsBlock) -> Iterator[str]:
    """The columns that are left out because all of their values are 0."""
    for field in fields(block):
        if field.name != "names" and not getattr(block, field.name):
            yield field.name
