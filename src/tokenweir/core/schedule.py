"""Capacity that follows the week: which entries of a spec's schedule come into force, and when."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from tokenweir.records.spec import Capacity, PoolSpec, ScheduledCapacity, Zone

MINUTE_MS = 60_000
DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS
# 1970-01-01 was a Thursday: the first Monday began four days later.
MONDAY_MS = 4 * DAY_MS
# Every entry comes up at least once in it, however the clocks are set.
LOOK_BACK_MS = WEEK_MS + DAY_MS


def scheduled(spec: PoolSpec, base: Capacity, after_ms: int, until_ms: int) -> Capacity:
    """`base` with every entry that comes into force in (after_ms, until_ms], in their order.

    What an entry leaves out stays as it is. Entries at the same moment take effect in the order of
    the spec.
    """
    if not spec.schedule:
        return base
    for _, entry in sorted(_due(spec, after_ms, until_ms), key=lambda due: due[0]):
        base = overlaid(base, entry)
    return base


def in_force(spec: PoolSpec, at_ms: int) -> Capacity:
    """What the spec alone says of `at_ms`: its capacity, and of the week before every entry."""
    return scheduled(spec, spec.capacity, at_ms - LOOK_BACK_MS, at_ms)


def overlaid(base: Capacity, entry: ScheduledCapacity) -> Capacity:
    """The capacity with what an entry says in its place."""
    return Capacity(
        base.tokens_per_s if entry.tokens_per_s is None else entry.tokens_per_s,
        base.kv_bytes if entry.kv_bytes is None else entry.kv_bytes,
        base.sequences if entry.sequences is None else entry.sequences,
    )


def _due(spec: PoolSpec, after_ms: int, until_ms: int) -> Iterator[tuple[int, ScheduledCapacity]]:
    zones = {zone.name: zone for zone in spec.zones}
    after_ms = max(after_ms, until_ms - LOOK_BACK_MS)
    first = (after_ms - DAY_MS - MONDAY_MS) // WEEK_MS
    last = (until_ms + DAY_MS - MONDAY_MS) // WEEK_MS
    for entry in spec.schedule:
        for week in range(first, last + 1):
            local_ms = MONDAY_MS + week * WEEK_MS + entry.minute * MINUTE_MS
            moment_ms = moment(zones[entry.zone], local_ms)
            if after_ms < moment_ms <= until_ms:
                yield moment_ms, entry


def moment(zone: Zone, local_ms: int) -> int:
    """The first moment (Unix ms) at which the zone's clock shows `local_ms` or later.

    So a time that is skipped when the clocks go forward is the moment at which they do, and of a
    time that comes twice it is the first. `local_ms` counts as Unix ms do, in the zone's own time.
    """
    place = max(bisect_right(zone.from_ms, local_ms - DAY_MS) - 1, 0)
    while True:
        shown_ms = max(zone.from_ms[place], local_ms - zone.offset_s[place] * 1000)
        if shown_ms < _end_ms(zone.from_ms, place):
            return shown_ms
        place += 1


def _end_ms(from_ms: Sequence[int], place: int) -> int:
    return from_ms[place + 1] if place + 1 < len(from_ms) else 1 << 62
