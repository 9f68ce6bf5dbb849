"""Times of the calendar as people write them: cycles, zones and moments of the week."""

import re
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from tokenweir.spec.words import DAYS
from tokenweir.spec.zones import is_zone

CYCLES = {
    "minute": "minute",
    "hour": "hour",
    "hourly": "hour",
    "1h": "hour",
    "day": "day",
    "daily": "day",
    "1d": "day",
    "month": "month",
    "monthly": "month",
}
MINUTES_A_DAY = 1440


class _Read:
    """As metadata of an `Annotated` it makes pydantic read that field with `read` alone."""

    def read(self, value: object) -> Any:
        """The value that is stored; raises `ValueError` with what is allowed."""
        raise NotImplementedError

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read)


@dataclass(frozen=True, slots=True)
class CycleName(_Read):
    """Reads a cycle; `daily` and `1d` are the calendar day, `24h` is no cycle of the calendar."""

    allowed: str = (
        "minute, hour, day or month of the calendar (hourly, 1h; daily, 1d; monthly); not 24h, "
        "which would be rolling: a day of the calendar can have 23 or 25 hours"
    )

    def read(self, value: object) -> str:
        """The cycle; raises `ValueError` with `allowed`."""
        if not isinstance(value, str) or value not in CYCLES:
            raise ValueError(self.allowed)
        return CYCLES[value]


@dataclass(frozen=True, slots=True)
class ZoneName(_Read):
    """Reads the name of a time zone."""

    allowed: str = "a time zone of the IANA database: UTC, Europe/Berlin"

    def read(self, value: object) -> str:
        """The name; raises `ValueError` with `allowed`."""
        if not isinstance(value, str) or not is_zone(value):
            raise ValueError(self.allowed)
        return value


@dataclass(frozen=True, slots=True)
class WeekTimes(_Read):
    """Reads times of the week into their minutes, from Monday 00:00."""

    allowed: str = "days and a time of day: Mon 08:00, Mon-Fri 08:00, Sat,Sun 00:00, daily 22:00"

    def read(self, value: object) -> tuple[int, ...]:
        """The minutes; raises `ValueError` with `allowed`."""
        found = re.fullmatch(r"(\S+) ([01]\d|2[0-3]):([0-5]\d)", str(value), re.ASCII)
        if found is None:
            raise ValueError(self.allowed)
        minute = int(found[2]) * 60 + int(found[3])
        return tuple(day * MINUTES_A_DAY + minute for day in self._days(found[1]))

    def _days(self, text: str) -> list[int]:
        if text == "daily":
            return [*range(len(DAYS))]
        days: set[int] = set()
        for part in text.split(","):
            first, _, last = part.partition("-")
            if first not in DAYS or (last or first) not in DAYS:
                raise ValueError(self.allowed)
            start, count = DAYS.index(first), len(DAYS)
            days |= {
                (start + step) % count
                for step in range((DAYS.index(last or first) - start) % count + 1)
            }
        return sorted(days)
