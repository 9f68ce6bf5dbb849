"""Cycles, zones and times of the week as people write them (field notes 27 and 29)."""

from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tests.unit.spec.test_read import HEAD, problems
from tokenweir.spec import read_spec
from tokenweir.spec.compile import compile_spec
from tokenweir.spec.zones import zone_of

TENANT = HEAD + "tenants: {a: {class: spot, quotas: [{per: %s, tokens: 10M}]}}\n"


@pytest.mark.parametrize("alias", ["day", "daily", "1d"])
def test_daily_and_1d_are_the_day_of_the_calendar(alias: str) -> None:
    spec = compile_spec(read_spec(TENANT % alias, "f"), 1, 0)
    assert spec.entitlements[0].quotas[0].cycle == "day"


@pytest.mark.parametrize("rolling", ["24h", "7d", "30 days"])
def test_a_rolling_period_is_refused_with_an_explanation(rolling: str) -> None:
    (line,) = problems(TENANT % rolling)
    assert "not 24h, which would be rolling" in line
    assert "can have 23 or 25 hours" in line


def test_an_unknown_zone_is_refused() -> None:
    (line,) = problems(TENANT % "day, zone: Mars/Phobos")
    assert "a time zone of the IANA database" in line


def test_two_quotas_of_one_cycle_are_refused() -> None:
    (line,) = problems(TENANT % "day, tokens: 1}, {per: daily")
    assert "one quota a cycle" in line


@pytest.mark.parametrize("more", ["rollover: 5", "lend: true"])
def test_a_quota_across_pools_is_not_rolled_over_or_lent(more: str) -> None:
    (line,) = problems(TENANT % f"day, across: true, {more}")
    assert "none with across" in line


@pytest.mark.parametrize(
    ("written", "minutes"),
    [
        ("Mon 08:00", (480,)),
        ("Sat,Sun 00:00", (5 * 1440, 6 * 1440)),
        ("Sat-Mon 23:59", (1439, 5 * 1440 + 1439, 6 * 1440 + 1439)),
        ("daily 00:30", tuple(day * 1440 + 30 for day in range(7))),
    ],
)
def test_times_of_the_week_are_minutes_from_monday(written: str, minutes: tuple[int, ...]) -> None:
    text = HEAD + f"schedule: [{{at: '{written}', tokens_per_s: 100}}]\n"
    spec = compile_spec(read_spec(text, "f"), 1, 0)
    assert tuple(entry.minute for entry in spec.schedule) == minutes


@pytest.mark.parametrize("written", ["8:00", "Mon 24:00", "Moon 08:00", "Mon-Fri"])
def test_what_is_no_time_of_the_week_is_refused(written: str) -> None:
    (line,) = problems(HEAD + f"schedule: [{{at: '{written}', tokens_per_s: 100}}]\n")
    assert "days and a time of day" in line


def test_an_entry_of_the_schedule_without_a_capacity_is_refused() -> None:
    (line,) = problems(HEAD + "schedule: [{at: 'Mon 08:00'}]\n")
    assert "tokens_per_s, kv_bytes or sequences" in line


@pytest.mark.parametrize("name", ["Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe"])
def test_a_zones_whole_numbers_are_those_of_the_database(name: str) -> None:
    found, zone = zone_of(name), ZoneInfo(name)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    while at.year < 2028:
        ms = int(at.timestamp()) * 1000
        offset_s = found.offset_s[bisect_right(found.from_ms, ms) - 1]
        assert timedelta(seconds=offset_s) == at.astimezone(zone).utcoffset(), at
        at += timedelta(hours=7)


@pytest.mark.parametrize(
    ("capacity", "claim", "said"),
    [
        ("", "sequences: 5", "say capacity.sequences too"),
        (", sequences: 10", "sequences: 10", "together at most 9"),
        (", kv_bytes: 1 GiB", "kv_bytes: 1 GiB", "kv_bytes reserved"),
    ],
)
def test_places_reserved_for_the_core_fit_or_are_refused(
    capacity: str, claim: str, said: str
) -> None:
    head = f"pool: chat\ncapacity: {{tokens_per_s: 20000{capacity}}}\n"
    text = head + f"tenants: {{a: {{class: guaranteed, baseline: 10, {claim}}}}}\n"
    assert any(said in line for line in problems(text))
