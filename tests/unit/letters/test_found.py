"""The dead-letter topic as it is read: each letter once, with what became of it."""

from dataclasses import replace

import pytest

from tests.pools import report
from tokenweir.errors import BadInput
from tokenweir.letters.contents import contents, plain
from tokenweir.letters.found import Entry, Letter, Letters, Place, note_of, read_place
from tokenweir.records.journal import DeadLetter
from tokenweir.wire import encode

ONE = DeadLetter("tokenweir.usage.v1", 3, 7, 1000, b"chat", b"x", "why", "control")


def entry(letter: DeadLetter, at_ms: int = 2000) -> Entry:
    return Entry(3, at_ms, encode(letter))


def letters_of(entries: list[Entry]) -> tuple[list[Letter], int]:
    letters = Letters(lambda letter: True)
    for one in entries:
        letters.add(one)
    return letters.oldest_first(), letters.strangers


def test_a_letter_that_was_sent_twice_is_one() -> None:
    # S6: after a crash the same letter comes again, with the same bytes.
    letters, strangers = letters_of([entry(ONE), entry(ONE, 3000)])
    assert [(one.found_ms, one.resent) for one in letters] == [(2000, "")]
    assert strangers == 0


def test_letters_come_oldest_first_and_strangers_are_counted() -> None:
    other = replace(ONE, offset=9)
    letters, strangers = letters_of([entry(ONE, 5000), Entry(0, 1, b"?"), entry(other)])
    assert [one.letter.offset for one in letters] == [9, 7]
    assert strangers == 1


def test_two_readers_have_a_letter_each() -> None:
    letters, _ = letters_of([entry(ONE), entry(replace(ONE, reader="history"))])
    assert [one.letter.reader for one in letters] == ["control", "history"]


def test_a_note_marks_its_letter_and_is_none_itself() -> None:
    note = note_of(ONE, "as gateway resend-3-7-1000")
    assert note.value is None
    letters, _ = letters_of([entry(note), entry(ONE), entry(replace(ONE, offset=9))])
    assert [one.resent for one in letters] == ["as gateway resend-3-7-1000", ""]


def test_a_place_is_read_as_it_is_written() -> None:
    place = Place("t-tokenweir.usage.v1", 3, 1234)
    assert read_place(str(place)) == place


@pytest.mark.parametrize("text", ["", "usage", "usage/3", "usage/3/x", "/3/4", "usage/3/-1"])
def test_what_names_no_place_is_said(text: str) -> None:
    with pytest.raises(BadInput, match="TOPIC/PARTITION/OFFSET is allowed"):
        read_place(text)


def test_contents_tell_what_bytes_are() -> None:
    whole = encode(report("gw-1", 1, {"acme": 5}))
    found = contents(whole)
    assert (found.kind, found.schema, found.pool) == ("UsageReport", "UsageReport v1", "chat")
    assert plain(found.record)["totals"]["tokens_out"] == [5]
    torn = contents(whole[:40])
    assert (torn.schema, torn.record) == ("UsageReport v1", None)
    assert torn.problem.startswith("cannot be read as UsageReport")
    unknown = contents(b"\xc3\x01" + bytes(8) + b"rest")
    assert unknown.form == "14 bytes of Avro, schema 00 00 00 00 00 00 00 00"
    assert unknown.problem == "this version does not know the schema"
    event = contents(b'{"pool":"chat"}')
    assert (event.kind, event.pool) == ("JSON", "chat")
    assert contents(b"\x00\x01").form == "2 bytes: 00 01"
    assert contents(None).record is None


def test_only_what_is_meant_is_kept() -> None:
    letters = Letters(lambda letter: letter.offset == 9)
    for one in (ONE, replace(ONE, offset=9)):
        letters.add(entry(one))
    assert [one.letter.offset for one in letters.oldest_first()] == [9]
