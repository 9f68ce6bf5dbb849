"""Which letters are meant, and how a letter is told; no broker is needed."""

import pytest

from tests.pools import START, report
from tokenweir.cli.dead_letters.explain import explained, lines_of
from tokenweir.cli.dead_letters.letters import Choice, is_meant, read_choice
from tokenweir.cli.dead_letters.resend import asked, planned
from tokenweir.cli.moment import read_since
from tokenweir.errors import BadInput
from tokenweir.letters.again import Terms
from tokenweir.letters.found import Letter, Place
from tokenweir.records.journal import DeadLetter
from tokenweir.topics import Topics, partition_of
from tokenweir.wire import encode

HOUR_MS = 3_600_000
TERMS = Terms(Topics(), 8)
HOME = partition_of("chat", 8)
USAGE = Topics().usage


def letter(value: bytes, key: bytes = b"chat", reason: str = "Applied is 9") -> DeadLetter:
    return DeadLetter(USAGE, HOME, 7, START, key, value, reason, "control")


def test_since_is_so_long_ago_or_a_time() -> None:
    assert read_since("2h", START) == START - 2 * HOUR_MS
    assert read_since("1970-01-01T01:00", START) == HOUR_MS
    assert read_since("1970-01-01T01:00+01:00", START) == 0
    with pytest.raises(BadInput, match="--since: value 'noon': a time with its unit"):
        read_since("noon", START)


def test_a_pool_is_that_of_the_key_or_of_the_record() -> None:
    misplaced = letter(encode(report("gw", 1, {"acme": 5})), key=b"acme")
    assert is_meant(misplaced, Choice(pool="chat"))
    assert is_meant(misplaced, Choice(pool="acme"))
    assert not is_meant(misplaced, Choice(pool="code"))


def test_a_reason_is_found_in_any_case() -> None:
    assert is_meant(letter(b"x"), Choice(reason="applied IS"))
    assert not is_meant(letter(b"x"), Choice(reason="age"))
    assert not is_meant(letter(b"x"), Choice(frozenset([Place(USAGE, HOME, 8)])))


def test_what_to_send_must_be_said_and_in_one_way() -> None:
    place = f"{USAGE}/{HOME}/7"
    chosen = read_choice("1h", None, None, START)
    assert asked([place], False, Choice()) == Choice(frozenset([Place(USAGE, HOME, 7)]))
    assert asked([], True, Choice()) == Choice()
    assert asked([], False, chosen) == chosen
    with pytest.raises(BadInput, match="which ones"):
        asked([], False, Choice())
    with pytest.raises(BadInput, match="not both"):
        asked([place], True, Choice())
    with pytest.raises(BadInput, match="not both"):
        asked([place], False, chosen)


def test_what_was_sent_before_is_passed_over() -> None:
    one = letter(encode(report("gw", 1, {"acme": 5}, applied=START + HOUR_MS)))
    assert planned(Letter(one, HOME, START), TERMS, START).state == "planned"
    assert planned(Letter(one, HOME, START, "as gateway x"), TERMS, START).state == "before"
    assert planned(Letter(letter(b"x"), HOME, START), TERMS, START).state == "refused"


def test_a_letter_is_told_with_all_that_is_known() -> None:
    one = Letter(letter(b'{"a": 1}', key=b"\xff"), HOME, START + 1500)
    assert lines_of(explained(one, TERMS, START)) == [
        f"{USAGE}/{HOME}/7: control could not use it",
        "Reason: Applied is 9",
        "Appended 2027-01-15 08:00:00 UTC, found 2027-01-15 08:00:01 UTC.",
        f"Key: '\\\\xff'; pool not known: it lies in partition {HOME}",
        "Value: 8 bytes of JSON",
        "{",
        '  "a": 1',
        "}",
    ]
