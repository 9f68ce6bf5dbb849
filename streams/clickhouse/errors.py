"""Errors in ClickHouse's own form: a number, a text, a name, and an HTTP status."""

import re
from typing import Final

# What this server raises by itself; the engine names its own.
NAMES: Final = {
    48: "NOT_IMPLEMENTED",
    62: "SYNTAX_ERROR",
    73: "UNKNOWN_FORMAT",
    115: "UNKNOWN_SETTING",
    117: "INCORRECT_DATA",
    164: "READONLY",
    216: "QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING",
    202: "TOO_MANY_SIMULTANEOUS_QUERIES",
    209: "SOCKET_TIMEOUT",
    241: "MEMORY_LIMIT_EXCEEDED",
    394: "QUERY_WAS_CANCELLED",
    396: "TOO_MANY_ROWS_OR_BYTES",
    40: "CHECKSUM_DOESNT_MATCH",
    271: "CANNOT_DECOMPRESS",
    432: "UNKNOWN_CODEC",
    497: "ACCESS_DENIED",
    511: "UNKNOWN_ROLE",
    516: "AUTHENTICATION_FAILED",
    1001: "STD_EXCEPTION",
}

# As ClickHouse's HTTP handler does it; everything else is 500.
_STATUS_CODES: Final = {
    400: (
        *(6, 7, 15, 16, 25, 26, 27, 36, 38, 41, 44, 53, 62, 72, 116, 117, 167, 168),
        *(223, 321, 376, 427, 675, 676, 690),
    ),
    403: (164, 192, 193, 497, 512, 516),
    404: (46, 47, 50, 56, 60, 63, 73, 78, 81, 106, 115, 336, 511),
    408: (159,),
    411: (381,),
    413: (298,),
    415: (432,),
    501: (48,),
    503: (76, 202, 209, 439),
}
STATUSES: Final = {code: status for status, codes in _STATUS_CODES.items() for code in codes}

_CODE = re.compile(r"Code: (\d+)\. DB::\w*Exception: ")
_OWN_FILE = re.compile(r"(: )?\(in file/uri /proc/self/fd/\d+\)")  # an INSERT's data
_VERSION_INSIDE = re.compile(r" \(version [^()]*\)\. \(\w+\)$")
_VERSION = re.compile(r"(?: \(version [^()]*(?:\([^()]*\))?\))+\s*$")


class QueryError(Exception):
    """A query that failed: `code` is ClickHouse's number, `text` starts with `Code: …`."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text

    @property
    def status(self) -> int:
        """The HTTP status that ClickHouse answers with for this code."""
        return STATUSES.get(self.code, 500)


def refusal(code: int, reason: str) -> QueryError:
    """Return an error of this server's own; `code` is one of `NAMES`."""
    return QueryError(code, f"Code: {code}. DB::Exception: {reason} ({NAMES[code]})")


def from_engine(message: str) -> QueryError:
    """Return what the engine says, without its version, with its code."""
    text = _OWN_FILE.sub("", _VERSION.sub("", message).strip())
    found = _CODE.search(text)
    if not found:
        return refusal(1001, text or "The engine failed without a word.")
    while again := _CODE.match(text, found.end()):  # some errors are wrapped in themselves
        found = again
    text = _VERSION_INSIDE.sub("", text[found.start() :])
    return QueryError(int(found[1]), text)
