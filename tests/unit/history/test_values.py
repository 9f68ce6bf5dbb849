"""Money, instants and queries as values."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from tokenweir.errors import BadInput
from tokenweir.history.instants import instant_of, ms_of
from tokenweir.history.money import money
from tokenweir.history.queries import TierTime, TotalsOf, UsageByTenant

SINCE, UNTIL = datetime(2026, 5, 29, tzinfo=UTC), datetime(2026, 5, 30, tzinfo=UTC)


@pytest.mark.parametrize("text", ["75.57", "75.49", "40.16", "1.3e-10", "-3", "1E+19"])
def test_money_is_exact(text: str) -> None:
    """Field note 76."""
    assert money(text) == Decimal(text)


@pytest.mark.parametrize("wrong", [75.57, True, "NaN", "Infinity", "ten", "1e-19", "1e20"])
def test_money_that_would_be_rounded_is_refused(wrong: object) -> None:
    with pytest.raises(BadInput, match="money"):
        money(wrong)  # type: ignore[arg-type]


@pytest.fixture
def in_new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process has another zone than UTC."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_new_york")
def test_an_instant_keeps_its_milliseconds_whatever_its_zone_and_ours() -> None:
    """Field note 72."""
    assert time.timezone == 5 * 3600
    east = datetime(2026, 5, 29, 12, 0, 0, 123_456, tzinfo=timezone(timedelta(hours=2)))
    back = instant_of(ms_of(east))
    assert back == datetime(2026, 5, 29, 10, 0, 0, 123_000, tzinfo=UTC)
    assert back.tzinfo is UTC


def test_a_time_without_a_zone_is_refused() -> None:
    """Field note 72."""
    with pytest.raises(BadInput, match="no zone"):
        ms_of(datetime(2026, 5, 29, 12))
    with pytest.raises(BadInput, match="no zone"):
        UsageByTenant("p", SINCE.replace(tzinfo=None), UNTIL).sql()


def test_a_query_is_text_with_placeholders_and_parameters() -> None:
    text, given = UsageByTenant("p'; DROP TABLE usage", SINCE, UNTIL).sql()
    assert "DROP" not in text
    assert given == {
        "pool": "p'; DROP TABLE usage",
        "since": 1_780_012_800_000,
        "until": 1_780_099_200_000,
    }


def test_queries_name_their_own_tables() -> None:
    assert " FROM usage WHERE " in TotalsOf("p", "t").sql()[0]
    assert " FROM decisions WHERE " in TierTime("p", SINCE, UNTIL).sql()[0]
