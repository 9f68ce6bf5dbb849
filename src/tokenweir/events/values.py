"""Single values of an event as JSON writers of many languages give them; None is not given."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tokenweir.errors import BadRecord

LONGEST_NAME = 512  # characters
MOST = 2**53  # what every JSON writer can say exactly


def whole(name: str, value: Any) -> int | None:
    """A whole number of at least 0.

    10.0 is 10, as Lua and JavaScript may write it, and "10" is 10, as protobuf's JSON writes 64-bit
    numbers. Raises `BadRecord` for true, -5, NaN, 1.5e308 and everything else.
    """
    if value is None:
        return None
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= 16:
        value = int(value)
    if isinstance(value, float) and value.is_integer() and abs(value) <= MOST:
        value = int(value)
    if type(value) is int and 0 <= value <= MOST:
        return value
    raise BadRecord(f"{name} is {_shown(value)}: a whole number from 0 to {MOST} is allowed")


def text(name: str, value: Any) -> str | None:
    """A name; a whole number is one too, since ids are often numbers."""
    if value is None:
        return None
    if type(value) is int:
        value = str(value)
    if not isinstance(value, str) or len(value) > LONGEST_NAME:
        raise BadRecord(
            f"{name} is {_shown(value)}: a string of at most {LONGEST_NAME} characters is allowed"
        )
    # A lone surrogate is no letter and cannot be written on.
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


def flag(name: str, value: Any) -> bool | None:
    """true or false."""
    if value is None or isinstance(value, bool):
        return value
    raise BadRecord(f"{name} is {_shown(value)}: true or false is allowed")


def moment(name: str, value: Any) -> int | None:
    """A time of RFC 3339 in Unix ms; one without a zone is refused."""
    if value is None:
        return None
    try:
        time = datetime.fromisoformat(value)
        if time.tzinfo is None:
            raise ValueError("no zone")
        return max(int(time.timestamp() * 1000), 0)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadRecord(
            f"{name} is {_shown(value)}: a time with its zone, as 2026-11-29T12:00:00.123Z,"
            " is allowed"
        ) from error


def part(name: str, value: Any) -> Mapping[str, Any] | None:
    """An object."""
    if value is None or isinstance(value, dict):
        return value
    raise BadRecord(f"{name} is {_shown(value)}: an object or null is allowed")


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
