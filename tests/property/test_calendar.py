"""Windows of the calendar against zoneinfo, in all zones, at all hours."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tokenweir.core.quota.calendar import window
from tokenweir.records.spec import Cycle, Zone
from tokenweir.spec.zones import zone_of

CYCLES: tuple[Cycle, ...] = ("minute", "hour", "day", "month")
# Half-hour offsets and half-hour summer time, midnights that are skipped or come twice.
ODD = (
    "Australia/Lord_Howe", "Asia/Kolkata", "Asia/Kathmandu", "America/Santiago", "Africa/Cairo",
    "Asia/Beirut", "America/Havana", "America/St_Johns", "America/Nuuk", "Atlantic/Azores",
    "Africa/Casablanca", "Pacific/Chatham", "Europe/Berlin", "America/Asuncion", "Asia/Tehran",
)  # fmt: skip
FROM, TO = datetime(2020, 1, 2, tzinfo=UTC), datetime(2049, 12, 1, tzinfo=UTC)

zones = st.sampled_from(ODD) | st.sampled_from(sorted(available_timezones() - {"localtime"})[::23])
moments = st.datetimes(FROM.replace(tzinfo=None), TO.replace(tzinfo=None)).map(
    lambda naive: int(naive.replace(tzinfo=UTC).timestamp() * 1000)
)


@st.composite
def zoned(draw: st.DrawFn) -> tuple[str, int]:
    """A zone and a moment, often close to a change of its clocks."""
    name = draw(zones)
    changes = zone_of(name).from_ms[1:]
    if not changes or draw(st.booleans()):
        return name, draw(moments)
    near = draw(st.integers(-90_000_000, 90_000_000))
    return name, draw(st.sampled_from(changes)) + near


def local(name: str, at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, ZoneInfo(name))


def name_at(cycle: Cycle, name: str, at_ms: int) -> str:
    """The local minute, hour, day or month, with the offset where clocks may show it twice."""
    moment = local(name, at_ms)
    form = {"minute": "%Y-%m-%dT%H:%M", "hour": "%Y-%m-%dT%H", "day": "%Y-%m-%d", "month": "%Y-%m"}
    short = f"{moment:{form[cycle]}}"
    offset = moment.isoformat()[-6:]
    return f"{cycle}/{short}{offset}" if cycle in ("minute", "hour") else f"{cycle}/{short}"


@settings(max_examples=300, deadline=None)
@given(zoned(), st.sampled_from(CYCLES))
@example(("America/Santiago", 1_788_667_200_000), "day")
def test_a_window_is_what_the_clocks_of_the_zone_show(place: tuple[str, int], cycle: Cycle) -> None:
    name, at_ms = place
    found = window(cycle, zone_of(name), at_ms)
    assert found.starts_ms <= at_ms < found.ends_ms
    assert found.id == name_at(cycle, name, at_ms)
    assert found.id == name_at(cycle, name, found.starts_ms)
    assert found.id == name_at(cycle, name, found.ends_ms - 1)


@settings(max_examples=300, deadline=None)
@given(zoned(), st.sampled_from(CYCLES))
def test_windows_follow_each_other_without_gap_or_overlap(
    place: tuple[str, int], cycle: Cycle
) -> None:
    zone, at_ms = zone_of(place[0]), place[1]
    found = window(cycle, zone, at_ms)
    after = window(cycle, zone, found.ends_ms)
    before = window(cycle, zone, found.starts_ms - 1)
    assert after.starts_ms == found.ends_ms
    assert before.ends_ms == found.starts_ms
    assert len({before.id, found.id, after.id}) == 3
    assert window(cycle, zone, found.starts_ms) == found


def hours(name: str, day: str) -> float:
    noon = datetime.fromisoformat(f"{day}T12:00").replace(tzinfo=ZoneInfo(name))
    found = window("day", zone_of(name), int(noon.timestamp() * 1000))
    assert found.id == f"day/{day}"
    return (found.ends_ms - found.starts_ms) / 3_600_000


@pytest.mark.parametrize(
    ("name", "day", "length"),
    [
        ("Europe/Berlin", "2026-03-29", 23),
        ("Europe/Berlin", "2026-10-25", 25),
        ("Europe/Berlin", "2026-11-29", 24),
        ("Australia/Lord_Howe", "2026-10-04", 23.5),
        ("Australia/Lord_Howe", "2026-04-05", 24.5),
        ("America/Santiago", "2026-09-06", 23),  # begins at 01:00
        ("Asia/Kolkata", "2026-03-29", 24),
    ],
)
def test_days_have_as_many_hours_as_the_clocks_say(name: str, day: str, length: float) -> None:
    assert hours(name, day) == length


def test_a_day_whose_midnight_is_skipped_starts_at_the_first_instant_after() -> None:
    noon = datetime(2026, 9, 6, 12, tzinfo=ZoneInfo("America/Santiago"))
    found = window("day", zone_of("America/Santiago"), int(noon.timestamp() * 1000))
    assert f"{local('America/Santiago', found.starts_ms):%m-%dT%H:%M}" == "09-06T01:00"


def test_ids_are_what_people_read() -> None:
    at = datetime(2026, 11, 29, 21, 5, 7, tzinfo=ZoneInfo("Europe/Berlin"))
    found = [
        window(cycle, zone_of("Europe/Berlin"), int(at.timestamp() * 1000)) for cycle in CYCLES
    ]
    assert [each.id for each in found] == [
        "minute/2026-11-29T21:05+01:00",
        "hour/2026-11-29T21+01:00",
        "day/2026-11-29",
        "month/2026-11",
    ]


def test_an_hour_that_comes_twice_is_two_windows() -> None:
    first = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    zone, at_ms = zone_of("Europe/Berlin"), int(first.timestamp() * 1000)
    assert window("hour", zone, at_ms).id == "hour/2026-10-25T02+02:00"
    assert window("hour", zone, at_ms + 3_600_000).id == "hour/2026-10-25T02+01:00"


def test_where_clocks_go_back_over_midnight_the_day_goes_on() -> None:
    """A zone of our own: at 00:30 of the 2nd, clocks go back by an hour.

    local  01T23:00 ─ 02T00:00 ─ 02T00:30 │ 01T23:30 ─ 02T00:00 ─
    day    01 ────────┬ 02 ───────────────────────────────────────
    """
    midnight = int((datetime(2026, 1, 2, tzinfo=UTC) - timedelta(hours=1)).timestamp() * 1000)
    zone = Zone("ours", (0, midnight + 1_800_000), (3600, 0))
    before = window("day", zone, midnight - 1)
    after = window("day", zone, midnight + 1_900_000)
    assert (before.id, before.ends_ms) == ("day/2026-01-01", midnight)
    assert (after.id, after.starts_ms) == ("day/2026-01-02", midnight)
