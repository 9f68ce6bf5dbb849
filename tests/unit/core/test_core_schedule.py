"""Capacity that follows the week, in zones whose clocks are changed."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tests.pools import pool_with, spec
from tokenweir.core.pool import Pool
from tokenweir.core.schedule import in_force, moment, scheduled
from tokenweir.core.step import Decided, advance, fold
from tokenweir.records.journal import AuditEntry
from tokenweir.records.spec import Capacity, PoolSpec, ScheduledCapacity
from tokenweir.records.usage import CapacityReport
from tokenweir.rows import from_rows, to_rows
from tokenweir.spec.zones import zone_of

HOUR = 60
DAY = 24 * HOUR
SATURDAY = 5 * DAY


def at(text: str) -> int:
    """Unix ms of an instant in ISO form."""
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def rules(*entries: tuple[int, float], zone: str = "Europe/Berlin") -> PoolSpec:
    """A pool of 10 000 tokens/s with entries of a minute of the week and tokens/s."""
    schedule = [
        ScheduledCapacity(zone, minute, int(rate * 1000), None, None) for minute, rate in entries
    ]
    return spec(zones=[zone_of(zone)], schedule=schedule)


def rate(capacity: Capacity) -> float:
    return capacity.tokens_per_s / 1000


def local(zone: str, text: str) -> int:
    """The moment at which a zone's clock shows a local time or later."""
    naive = datetime.fromisoformat(text).replace(tzinfo=UTC)
    return moment(zone_of(zone), int(naive.timestamp() * 1000))


def test_an_entry_comes_into_force_at_its_time_of_the_week() -> None:
    weekend = rules((0, 8_000), (SATURDAY, 3_000))
    base = Capacity(5_000_000, None, 7)
    saturday = at("2027-01-16T00:00+01:00")
    assert scheduled(weekend, base, saturday - 1000, saturday - 1) == base
    assert scheduled(weekend, base, saturday - 1, saturday) == Capacity(3_000_000, None, 7)
    assert scheduled(weekend, base, saturday, saturday + 1000) == base


def test_of_several_entries_the_newest_holds_and_each_sets_only_its_own() -> None:
    zone = "UTC"
    both = spec(
        zones=[zone_of(zone)],
        schedule=[
            ScheduledCapacity(zone, 0, 1_000, None, None),
            ScheduledCapacity(zone, 60, None, None, 32),
            ScheduledCapacity(zone, 120, 2_000, 5, None),
        ],
    )
    monday = at("2027-01-18T00:00Z")
    hours = [scheduled(both, Capacity(9, 9, 9), monday - 1, monday + h * 3_600_000) for h in (0, 1)]
    assert hours == [Capacity(1_000, 9, 9), Capacity(1_000, 9, 32)]
    assert scheduled(both, Capacity(9, 9, 9), monday - 1, monday + 7_200_000) == Capacity(
        2_000, 5, 32
    )


def test_what_is_in_force_is_what_came_last_even_if_that_was_days_ago() -> None:
    weekend = rules((0, 8_000), (SATURDAY, 3_000))
    assert rate(in_force(weekend, at("2027-01-15T23:59:59+01:00"))) == 8_000
    assert rate(in_force(weekend, at("2027-01-17T12:00+01:00"))) == 3_000
    assert rate(in_force(rules(), at("2027-01-17T12:00+01:00"))) == 10_000


def test_a_silence_of_months_looks_back_a_week_and_no_further() -> None:
    weekend = rules((0, 8_000), (SATURDAY, 3_000))
    noon = at("2027-06-16T12:00+02:00")
    assert rate(scheduled(weekend, Capacity(1, None, None), 0, noon)) == 8_000


def test_a_skipped_time_is_the_moment_at_which_the_clocks_go_forward() -> None:
    # Berlin, 2027-03-28: 02:00 becomes 03:00 at 01:00 UTC.
    forward = at("2027-03-28T01:00Z")
    assert local("Europe/Berlin", "2027-03-28T01:59") == forward - 60_000
    assert local("Europe/Berlin", "2027-03-28T02:30") == forward
    assert local("Europe/Berlin", "2027-03-28T03:00") == forward


def test_a_time_that_comes_twice_is_its_first() -> None:
    # Berlin, 2027-10-31: 03:00 becomes 02:00 at 01:00 UTC.
    assert local("Europe/Berlin", "2027-10-31T02:30") == at("2027-10-31T00:30Z")
    assert local("Europe/Berlin", "2027-10-31T03:00") == at("2027-10-31T02:00Z")


@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "UTC"]
)
def test_times_of_the_week_are_those_of_the_calendar(zone: str) -> None:
    """Every quarter of an hour around the days on which some zone's clocks change."""
    for day in ("2027-03-14", "2027-03-28", "2027-04-04", "2027-10-03", "2027-10-31", "2027-11-07"):
        shown = datetime.fromisoformat(day) - timedelta(hours=6)
        for _ in range(140):
            expected = _first(ZoneInfo(zone), shown)
            assert moment(zone_of(zone), at(shown.isoformat() + "Z")) == expected, shown
            shown += timedelta(minutes=15)


def _first(zone: ZoneInfo, shown: datetime) -> int:
    """By the calendar: the first of the two meanings that is not skipped, else the change."""
    early, late = (shown.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    if _exists(early):
        return int(early.timestamp() * 1000)
    # Skipped: `late` lies before the change, `early` after it.
    before, after = int(late.timestamp()), int(early.timestamp())
    while after - before > 1:
        middle = (before + after) // 2
        is_after = datetime.fromtimestamp(middle, zone).replace(tzinfo=None) >= shown
        before, after = (before, middle) if is_after else (middle, after)
    return after * 1000


def _exists(local_time: datetime) -> bool:
    back = local_time.astimezone(UTC).astimezone(local_time.tzinfo)
    return back.replace(tzinfo=None) == local_time.replace(tzinfo=None)


# A pool on a Friday, 23:59:50 in Berlin: at midnight the weekend begins.
FRIDAY = at("2027-01-15T23:59:50+01:00")
MIDNIGHT = FRIDAY + 10_000
WEEKEND = rules((0, 8_000), (SATURDAY, 3_000))


def capacity_audits(decided: Decided | None) -> list[AuditEntry]:
    assert decided is not None
    bodies = [entry.body for entry in decided.entries]
    return [body for body in bodies if isinstance(body, AuditEntry) and body.kind == "capacity"]


def decide(pool: Pool, at_ms: int) -> Decided:
    decided = advance(pool, at_ms)
    assert decided is not None
    return decided


def test_when_a_spec_is_applied_the_entry_in_force_holds() -> None:
    first = decide(pool_with(WEEKEND, FRIDAY), FRIDAY + 1_000)
    assert first.decision.capacity == 8_000_000
    assert [audit.why for audit in capacity_audits(first)] == ["the capacity changed, by the spec"]


def test_the_boundary_that_passes_an_entry_takes_it_up_and_tells_the_source() -> None:
    pool = pool_with(WEEKEND, FRIDAY)
    assert decide(pool, MIDNIGHT - 1_000).decision.capacity == 8_000_000
    decided = decide(pool, MIDNIGHT)
    assert decided.decision.capacity == 3_000_000
    (audit,) = capacity_audits(decided)
    assert (audit.before, audit.after) == ("8000 tokens/s", "3000 tokens/s")
    assert audit.why == "the capacity changed, by schedule"
    assert capacity_audits(decide(pool, MIDNIGHT + 1_000)) == []


def test_what_is_reported_holds_until_the_next_entry() -> None:
    pool = pool_with(WEEKEND, FRIDAY)
    decide(pool, FRIDAY + 1_000)
    fold(pool, CapacityReport("chat", "autoscaler", 5_000_000, None, None), FRIDAY + 1_000)
    decided = decide(pool, FRIDAY + 2_000)
    assert decided.decision.capacity == 5_000_000
    assert capacity_audits(decided)[0].why == "the capacity changed, by autoscaler"
    assert decide(pool, MIDNIGHT).decision.capacity == 3_000_000


@pytest.mark.parametrize(("reported_ms", "expected"), [(-300, 3_000_000), (300, 6_000_000)])
def test_in_one_interval_what_comes_last_holds(reported_ms: int, expected: int) -> None:
    # 4 s intervals: midnight lies inside one.
    pool = pool_with(replace(WEEKEND, interval_ms=4_000), FRIDAY)
    decide(pool, MIDNIGHT - 1_500)
    report_ms = MIDNIGHT + reported_ms
    advance(pool, report_ms)
    fold(pool, CapacityReport("chat", "x", 6_000_000, None, None), report_ms)
    assert decide(pool, MIDNIGHT + 4_000).decision.capacity == expected


def test_a_spec_that_says_the_same_does_not_undo_what_was_reported() -> None:
    pool = pool_with(WEEKEND, FRIDAY)
    decide(pool, FRIDAY + 1_000)
    fold(pool, CapacityReport("chat", "x", 5_000_000, None, None), FRIDAY + 1_000)
    fold(pool, replace(WEEKEND, version=2, replaces=1, alpha=0), FRIDAY + 1_500)
    assert decide(pool, FRIDAY + 2_000).decision.capacity == 5_000_000
    fold(pool, replace(rules((0, 7_000)), version=3, replaces=2), FRIDAY + 2_500)
    assert decide(pool, FRIDAY + 3_000).decision.capacity == 7_000_000


def test_a_pool_that_is_restored_takes_up_an_entry_once() -> None:
    pool = pool_with(WEEKEND, FRIDAY)
    decide(pool, MIDNIGHT)
    fold(pool, CapacityReport("chat", "x", 5_000_000, None, None), MIDNIGHT + 100)
    again = from_rows(to_rows(pool))
    assert decide(again, MIDNIGHT + 1_000).decision.capacity == 5_000_000
    decide(pool, MIDNIGHT + 1_000)
    assert to_rows(again) == to_rows(pool)
