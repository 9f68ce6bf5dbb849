"""Time zones as whole numbers, computed once by `apply`, so that workers need no calendar (A1)."""

from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from tokenweir.records.spec import Zone

FIRST = datetime(2020, 1, 1, tzinfo=UTC)
# Specs are applied again long before; from then on the last offset holds.
LAST = datetime(2051, 1, 1, tzinfo=UTC)
STEP = timedelta(days=1)
PRECISION = timedelta(seconds=1)


def is_zone(name: str) -> bool:
    """Whether the IANA database knows this zone."""
    return name in available_timezones()


@cache
def zone_of(name: str) -> Zone:
    """The offsets of a zone from 2020 to 2050, and from when on each holds."""
    zone = ZoneInfo(name)
    from_ms, offset_s = [0], [_offset_s(zone, FIRST)]
    at = FIRST
    while at < LAST:
        if _offset_s(zone, at + STEP) != offset_s[-1]:
            change = _change(zone, at, at + STEP)
            from_ms.append(int(change.timestamp()) * 1000)
            offset_s.append(_offset_s(zone, change))
        at += STEP
    return Zone(name, tuple(from_ms), tuple(offset_s))


def _change(zone: ZoneInfo, before: datetime, after: datetime) -> datetime:
    """The second at which the offset of `before` ends."""
    old = _offset_s(zone, before)
    while after - before > PRECISION:
        middle = before + (after - before) // 2
        middle = middle.replace(microsecond=0)
        before, after = (middle, after) if _offset_s(zone, middle) == old else (before, middle)
    return after


def _offset_s(zone: ZoneInfo, at: datetime) -> int:
    offset = at.astimezone(zone).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())
