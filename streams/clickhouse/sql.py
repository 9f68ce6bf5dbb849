"""What must be known of a statement before the engine sees it.

The engine parses SQL; here its text is only cut into tokens, to find where an INSERT's data
begins, which format an answer has, and what an HTTP server must not run.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from streams.clickhouse.errors import refusal

# As in ClickHouse's Lexer.cpp; possessive, so that a hostile text costs linear time.
_TOKEN: Final = re.compile(
    rb"""
    (?P<blank>\s++|--[^\n]*+|//[^\n]*+|\#[\ !][^\n]*+)
    |(?P<comment>/\*)
    |(?P<string>'(?:[^'\\]|\\.|'')*+'|\xe2\x80\x98.*?\xe2\x80\x99|(?P<tag>\$\w*+\$).*?(?P=tag))
    |(?P<name>`(?:[^`\\]|\\.|``)*+`|"(?:[^"\\]|\\.|"")*+"|\xe2\x80\x9c.*?\xe2\x80\x9d)
    |(?P<word>[\w$]++)
    |(?P<open>['"`]|\xe2\x80[\x98\x9c])
    |(?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE: Final = re.compile(rb"/\*|\*/")
_DATA_START: Final = re.compile(rb"[ \t\f]*\r?\n?")

# Functions that reach out of the data folder and that no grant can withhold.
_UNREACHABLE: Final = frozenset({b"file", b"python", b"disk"})


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a statement: `kind` is string, name, word, sign or open (a quote not closed)."""

    kind: str
    text: bytes
    start: int
    end: int
    depth: int  # of the brackets around it

    @property
    def word(self) -> bytes:
        """Upper case, if it is a bare word, else nothing."""
        return self.text.upper() if self.kind == "word" else b""

    @property
    def identifier(self) -> bytes:
        """The lower-case name, quoted or not."""
        return (
            self.text.strip(b'`"\xe2\x80\x9c\x9d').lower() if self.kind in ("word", "name") else b""
        )


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement; of an INSERT with data, what stands before its FORMAT or VALUES."""

    text: bytes
    verb: str  # its first word, upper case; empty if there is none
    format: str | None  # what it names itself
    data_at: int | None = None  # where an INSERT's data begins in the text that was read
    settings: bytes = b""  # of an INSERT with data: its SETTINGS, which are not in `text`


def tokens(text: bytes) -> Iterator[Token]:
    """Yield the tokens up to a quote or comment that is not closed; blanks are left out."""
    at, depth = 0, 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        assert found is not None  # the last alternative takes any byte
        kind, start, at = str(found.lastgroup), at, found.end()
        kind = "string" if kind == "tag" else kind
        if kind == "comment":
            at = _comment_end(text, at)
        elif kind != "blank":
            piece = text[start:at]
            depth -= kind == "sign" and piece in b")]}"
            yield Token(kind, piece, start, at, depth)
            depth += kind == "sign" and piece in b"([{"
            at = len(text) if kind == "open" else at


def _comment_end(text: bytes, at: int) -> int:
    depth = 1
    while depth and (edge := _COMMENT_EDGE.search(text, at)):
        depth += 1 if edge[0] == b"/*" else -1
        at = edge.end()
    return len(text) if depth else at


def read_statement(text: bytes) -> Statement:
    """Read one statement; raises `QueryError` for several, and for what is not run here."""
    scan = tokens(text)
    seen: list[Token] = []
    for token in scan:
        seen.append(token)
        if token.depth == 0 and _starts_data(seen):
            return _with_data(text, seen, next(scan, None))
    if not seen:
        raise refusal(62, "Syntax error: Empty query.")
    _refuse_several(seen)
    _refuse_reaching_out(seen)
    return Statement(text, _verb(seen), _format(seen))


def _verb(seen: Sequence[Token]) -> str:
    first = next((token.word for token in seen if token.text != b"("), b"")
    if first == b"WITH" and any(t.word == b"INSERT" and t.depth == 0 for t in seen):
        return "INSERT"
    return first.decode("ascii", "replace")


def _starts_data(seen: Sequence[Token]) -> bool:
    """Tell whether the last token is the FORMAT or VALUES of an INSERT without a SELECT."""
    if seen[-1].word not in (b"FORMAT", b"VALUES") or seen[0].word != b"INSERT":
        return False
    table = next((i for i, t in enumerate(seen) if i and t.word not in _BEFORE_TABLE), len(seen))
    after = [t.word for t in seen[table + 1 : -1] if t.depth == 0]
    return len(seen) > table + 1 and seen[-2].text != b"." and not _SELECTS & set(after)


_BEFORE_TABLE: Final = frozenset({b"INTO", b"TABLE", b"FUNCTION"})
_SELECTS: Final = frozenset({b"SELECT", b"WITH", b"FROM", b"WATCH"})


def _with_data(text: bytes, seen: Sequence[Token], following: Token | None) -> Statement:
    _refuse_reaching_out(seen)
    end = next((t.start for t in seen[:-1] if _is_settings(t)), seen[-1].start)
    statement, settings = text[:end], text[end : seen[-1].start]
    if seen[-1].word == b"VALUES":
        data_at = following.start if following else len(text)
        return Statement(statement, "INSERT", "Values", data_at, settings)
    if following is None or following.kind != "word":
        raise refusal(62, "Syntax error: the name of a format is expected after FORMAT.")
    start = _DATA_START.match(text, following.end)
    assert start is not None  # it may be empty
    if text[following.end : following.end + 1] == b";":
        raise refusal(62, "Syntax error: remove the ';' before the data of the INSERT.")
    return Statement(statement, "INSERT", following.text.decode(), start.end(), settings)


def _is_settings(token: Token) -> bool:
    return token.depth == 0 and token.word == b"SETTINGS"


def _format(seen: Sequence[Token]) -> str | None:
    """Return the format of the answer that the statement's end names."""
    top = [token for token in seen if token.depth == 0 and token.text != b";"]
    for here, name, after in zip(top, top[1:], [*top[2:], None], strict=False):
        if here.word == b"FORMAT" and name.kind == "word" and _ends(after):
            return name.text.decode()
    return None


def _ends(after: Token | None) -> bool:
    return after is None or _is_settings(after)


def _refuse_several(seen: Sequence[Token]) -> None:
    for token, following in pairwise(seen):
        if token.text == b";" and following.text != b";":
            raise refusal(
                62, "Syntax error (Multi-statements are not allowed): send one a request."
            )


def _refuse_reaching_out(seen: Sequence[Token]) -> None:
    pairs = list(pairwise(seen))
    for before, token in pairs:
        if (before.word, token.word) in ((b"INTO", b"OUTFILE"), (b"FROM", b"INFILE")):
            raise refusal(497, f"{token.text.decode()} is not available over HTTP.")
        if before.identifier in _UNREACHABLE and token.text == b"(":
            raise refusal(497, f"The function {before.identifier.decode()} is not available here.")
    for i, token in enumerate(seen):
        if token.word == b"APPLY" and any(
            t.identifier in _UNREACHABLE for t in seen[i + 1 : i + 3]
        ):
            raise refusal(497, "APPLY with a function that reads files is not available here.")
    inputs = [b for b, token in pairs if b.identifier == b"input" and token.text == b"("]
    if inputs and seen[0].word == b"INSERT":
        raise refusal(48, "The table function input is not supported: insert the columns directly.")
