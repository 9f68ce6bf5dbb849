"""Numbers as people write them, with a unit, read into the integers that the wire carries."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

# 20000, 20_000 and 20 000 are the same.
NUMBER = re.compile(
    r"([+-]?\d+(?:[_ ]\d{3})*(?:\.\d+)?(?:[eE][+-]?\d{1,3})?)\s*(.*)", re.ASCII | re.DOTALL
)


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """A kind of number: which units it may have, its bounds, and a sentence that says both.

    As metadata of an `Annotated[int, …]` it makes pydantic read that field with it.
    """

    allowed: str
    units: Mapping[str, Decimal]  # how many of the stored unit one is; "": without a unit
    least: int
    most: int
    whole: bool = False  # what would have to be rounded is refused

    def read(self, value: object) -> int:
        """`value` in the stored unit, rounded half to even; raises `ValueError` with `allowed`."""
        number, unit = _split(value)
        if not number.is_finite() or abs(number) > 2**63 or unit not in self.units:
            raise ValueError(self.allowed)
        exact = number * self.units[unit]
        stored = int(exact.to_integral_value())
        if not self.least <= stored <= self.most or (self.whole and stored != exact):
            raise ValueError(self.allowed)
        return stored

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """A field of this kind is read by `read` alone."""
        return core_schema.no_info_plain_validator_function(self.read)


def _split(value: object) -> tuple[Decimal, str]:
    """The number and its unit; not a number (and no bool either) is NaN."""
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return Decimal(str(value)), ""
    found = NUMBER.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        return Decimal("nan"), ""
    return Decimal(found[1].replace(" ", "_")), found[2]


def _each(one: int | Decimal, suffixes: Mapping[str, int]) -> dict[str, Decimal]:
    return {suffix: Decimal(one) * factor for suffix, factor in suffixes.items()}


THOUSANDS = {"": 1, "k": 1000, "M": 10**6, "G": 10**9}
RATE_UNITS = {
    **_each(1000, THOUSANDS),
    **_each(1000, {f"{suffix}/s": factor for suffix, factor in THOUSANDS.items()}),
    **_each(Decimal(1000) / 60, {f"{suffix}/min": factor for suffix, factor in THOUSANDS.items()}),
    **_each(Decimal(1000) / 3600, {f"{suffix}/h": factor for suffix, factor in THOUSANDS.items()}),
}
BYTE_UNITS = {
    **_each(1, {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}),
    **_each(1, {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}),
}
DURATION_UNITS = _each(1, {"ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000})
RATIO_UNITS = {"": Decimal(1_000_000), "%": Decimal(10_000)}
LARGEST_RATE = 10**12  # milli-tokens/s: a thousand million tokens a second

PER_SECOND = "tokens a second, or with a unit of time: 6000, 20k/s, 1.2M/min, 72M/h"

RATE = Quantity(PER_SECOND, RATE_UNITS, 0, LARGEST_RATE)
SOME_RATE = Quantity(f"more than 0 {PER_SECOND}", RATE_UNITS, 1, LARGEST_RATE)
BYTES = Quantity(
    "bytes, or with a unit (kB, MB, GB, TB, KiB, MiB, GiB, TiB), more than 0: 40 GiB",
    BYTE_UNITS,
    1,
    2**60,
)
TOKENS = Quantity("tokens, more than 0: 20000, 20k", _each(1000, THOUSANDS), 1, LARGEST_RATE)
WHOLE_TOKENS = Quantity(
    "whole tokens, more than 0: 20000, 20k, 10M", _each(1, THOUSANDS), 1, 10**15, whole=True
)
FACTOR = Quantity("a number from 0 to 1000: 0.1, 4", {"": Decimal(1_000_000)}, 0, 10**9)
WEIGHT = Quantity("a number above 0, up to 1000000: 1000, 0.1", {"": Decimal(1_000_000)}, 1, 10**12)


def count(most: int) -> Quantity:
    """How many, from 1."""
    return Quantity(f"a whole number from 1 to {most}", {"": Decimal(1)}, 1, most, whole=True)


def duration(least: str, most: str, whole: str = "ms") -> Quantity:
    """A time with its unit, stored as ms, or as s where `whole` says so."""
    units = {unit: ms / DURATION_UNITS[whole] for unit, ms in DURATION_UNITS.items()}
    read = Quantity("", units, 0, 2**62).read
    allowed = f"a time with its unit (ms, s, min, h), {least} to {most}"
    return Quantity(allowed, units, read(least), read(most), whole=True)


def ratio(least: str, most: str) -> Quantity:
    """A part of something, stored in millionths."""
    read = Quantity("", RATIO_UNITS, 0, 2**62).read
    allowed = f"a number from {least} to {most}, or a percentage: 0.25, 25%"
    return Quantity(allowed, RATIO_UNITS, read(least), read(most))


def number(value: object) -> Decimal | None:
    """A finite number without a unit; None where it is none."""
    found, unit = _split(value)
    return found if found.is_finite() and not unit else None
