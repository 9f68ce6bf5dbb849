"""Instants: whole milliseconds since 1970 in UTC, on the wire and in the tables."""

from datetime import UTC, datetime, timedelta

from tokenweir.errors import BadInput

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def ms_of(instant: datetime) -> int:
    """Milliseconds, rounded down; raises `BadInput` for a time without a zone."""
    if instant.utcoffset() is None:
        raise BadInput(f"time {instant.isoformat()} has no zone: add one, such as +00:00")
    return (instant - EPOCH) // timedelta(milliseconds=1)


def instant_of(ms: int) -> datetime:
    """The instant, in UTC."""
    return EPOCH + timedelta(milliseconds=ms)
