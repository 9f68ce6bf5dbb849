"""The windows of calendar cycles in a zone's local time, from the zone's whole numbers (A1).

A day or month begins at the first instant whose local time has reached its midnight: where clocks
skip midnight that is the instant after, and where they fall back over it the day goes on. Hours and
minutes are local too, and end where the zone's offset changes: their ids carry the offset, since
the same local hour can come twice.
"""

from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from tokenweir.records.spec import Cycle, Zone

SECOND_MS = 1000
LENGTHS_MS = {"minute": 60_000, "hour": 3_600_000}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# No offset is larger: so much before a local time at most begins what holds then, ms.
MOST_OFFSET_MS = 86_400_000


class Window(NamedTuple):
    """One cycle of a calendar, from `starts_ms` to before `ends_ms`; ids sort within a cycle."""

    id: str
    starts_ms: int
    ends_ms: int


def window(cycle: Cycle, zone: Zone, at_ms: int) -> Window:
    """The window of a cycle in which `at_ms` lies; Unix ms, 0 or later."""
    place = bisect_right(zone.from_ms, at_ms) - 1
    if cycle in LENGTHS_MS:
        return _short(cycle, zone, place, at_ms)
    local = _moment(at_ms + zone.offset_s[place] * SECOND_MS)
    first = _midnight(cycle, local)
    ahead = _next(cycle, first)
    # Clocks may have gone back over a midnight that has been: its day goes on.
    if _first_instant(zone, ahead) <= at_ms:
        first, ahead = ahead, _next(cycle, ahead)
    name = f"{first:%Y-%m-%d}" if cycle == "day" else f"{first:%Y-%m}"
    return Window(f"{cycle}/{name}", _first_instant(zone, first), _first_instant(zone, ahead))


def _short(cycle: Cycle, zone: Zone, place: int, at_ms: int) -> Window:
    length_ms, offset_ms = LENGTHS_MS[cycle], zone.offset_s[place] * SECOND_MS
    local_ms = (at_ms + offset_ms) // length_ms * length_ms
    starts_ms, ends_ms = local_ms - offset_ms, local_ms - offset_ms + length_ms
    if place > 0:
        starts_ms = max(starts_ms, zone.from_ms[place])
    if place + 1 < len(zone.from_ms):
        ends_ms = min(ends_ms, zone.from_ms[place + 1])
    form = "%Y-%m-%dT%H" if cycle == "hour" else "%Y-%m-%dT%H:%M"
    name = f"{_moment(local_ms):{form}}{_offset(zone.offset_s[place])}"
    return Window(f"{cycle}/{name}", starts_ms, ends_ms)


def _midnight(cycle: Cycle, local: datetime) -> datetime:
    first = local.replace(hour=0, minute=0, second=0, microsecond=0)
    return first if cycle == "day" else first.replace(day=1)


def _next(cycle: Cycle, first: datetime) -> datetime:
    if cycle == "day":
        return first + timedelta(days=1)
    return (first + timedelta(days=31)).replace(day=1)


def _first_instant(zone: Zone, local: datetime) -> int:
    """The first instant, Unix ms, at which local time is `local` or later."""
    local_ms = (local - EPOCH) // timedelta(milliseconds=1)
    place = max(bisect_right(zone.from_ms, local_ms - MOST_OFFSET_MS) - 1, 0)
    while True:
        at_ms = local_ms - zone.offset_s[place] * SECOND_MS
        if place > 0:
            at_ms = max(at_ms, zone.from_ms[place])
        place += 1
        if place == len(zone.from_ms) or at_ms < zone.from_ms[place]:
            return at_ms


def _moment(local_ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=local_ms)


def _offset(seconds: int) -> str:
    hours, rest = divmod(abs(seconds), 3600)
    exact = f":{rest % 60:02}" if rest % 60 else ""
    return f"{'-' if seconds < 0 else '+'}{hours:02}:{rest // 60:02}{exact}"
