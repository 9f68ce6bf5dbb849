"""A moment as people write it: so long ago, a time, or what a decision's id says."""

import re
from datetime import UTC, datetime

from tokenweir.errors import BadInput
from tokenweir.spec.quantity import duration

AGO = duration("1 s", "8760 h")
_ID = re.compile(r"(?:[^/]+@)?(\d{12,15})")
ALLOWED = (
    f"{AGO.allowed}, ago; a time, which is UTC unless it says otherwise: 2026-11-29T17:10; or a "
    "decision: chat@1767323045000"
)


def read_moment(option: str, text: str | None, now_ms: int) -> int | None:
    """The moment in ms; None for an option that was not given. Raises `BadInput` for neither."""
    if text is None:
        return None
    named = _ID.fullmatch(text)
    if named is not None:
        return int(named[1])
    try:
        return _ago_or_time(text, now_ms)
    except ValueError as error:
        raise BadInput(f"{option}: value {text!r}: allowed is {ALLOWED}") from error


def read_since(text: str, now_ms: int) -> int:
    """A moment in ms: so long ago, or a time, which is UTC unless it says otherwise."""
    try:
        return _ago_or_time(text, now_ms)
    except ValueError as error:
        raise BadInput(
            f"--since: value {text!r}: {AGO.allowed}, ago; or a time: 2026-11-29T17:10"
        ) from error


def _ago_or_time(text: str, now_ms: int) -> int:
    try:
        return now_ms - AGO.read(text)
    except ValueError:
        pass
    moment = datetime.fromisoformat(text)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
