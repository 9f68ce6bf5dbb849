"""Reports that are read and folded at once do what they do one after the other."""

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from tests.pools import START, pool_with, spec, tenant
from tokenweir.core.fold import COLUMNS, MOST_AGE_MS
from tokenweir.core.pool import Pool
from tokenweir.core.sheet import Sheet, fold_placed, place
from tokenweir.core.step import advance, fold
from tokenweir.errors import BadRecord
from tokenweir.records.usage import RequestsBlock, Totals, UsageReport
from tokenweir.review.encoded.reports import read_sheet
from tokenweir.rows import to_rows
from tokenweir.usage_log import Message
from tokenweir.wire import decode, encode, head_of

HEAD = head_of(RequestsBlock)
# Blocks that are one, that are none, and that end in the middle of a number.
BLOCKS = (b"", HEAD + b" a block \xff\xff", HEAD, b"\xc3\x01 other\xff", b"older" + HEAD)
KINDS = ("tokens_uncached", "tokens_cached", "tokens_out")


def numbers(dice: random.Random, name: str, rows: int) -> Sequence[int]:
    if dice.random() < 0.4:
        return []
    most = dice.choice((1, 60, 5_000, 10**6 if name == "sequences" else 10**9))
    least = -most if name in KINDS and dice.random() < 0.2 else 0
    return [dice.randint(least, most) for _ in range(rows)]


def report(dice: random.Random, gateway: str, sequence: int) -> UsageReport:
    names = [f"team-{dice.randrange(14)}" for _ in range(dice.choice((0, 1, 3, 90)))]
    names += ["n" * 70, "größer"][: dice.randrange(3)]
    rows = dice.choice((0, 1, 7, 80)) if names else 0
    places = [[dice.randrange(len(names)) for _ in range(rows)] for _ in range(2)]
    columns = {name: numbers(dice, name, rows) for name in COLUMNS}
    columns["age_ms"] = [dice.choice((0, 10, 4_000, 90_000)) for _ in range(rows)]
    return UsageReport(
        pool="chat",
        gateway=gateway,
        sequence=sequence,
        applied=dice.choice((0, START)),
        closing=dice.random() < 0.05,
        more=dice.random() < 0.2,
        age_ms=dice.choice((0, 3, 700)),
        totals=Totals(names, places[0], places[1], **columns),
        requests=dice.choice(BLOCKS),
    )


def run(dice: random.Random, wrong: float) -> list[Message]:
    """Reports of three gateways within a second; some come twice, some are not what they were."""
    found, sequence = list[Message](), dict.fromkeys("abc", 1)
    for number in range(dice.randint(1, 12)):
        gateway = dice.choice("abc")
        sequence[gateway] += dice.choice((0, 1, 1, 1, 3))
        value = bytearray(encode(report(dice, gateway, sequence[gateway])))
        if dice.random() < wrong:
            value[dice.randrange(len(value))] = dice.choice((0, 1, 2, 127, 128, 255))
        value = value[: -dice.randint(1, 9)] if dice.random() < wrong / 4 else value
        at_ms = START + 40 * number + dice.randrange(40)
        found.append(Message(number, at_ms, b"chat", bytes(value)))
    return found


def pool() -> Pool:
    claims = [tenant(f"team-{place}", "elastic", 9) for place in range(12)]
    found = pool_with(spec(*claims))
    advance(found, START)
    return found


def read(message: Message) -> UsageReport | None:
    try:
        record = decode(message.value)
    except BadRecord:
        return None
    return record if isinstance(record, UsageReport) and record.pool == "chat" else None


def fold_each(found: Pool, messages: Sequence[Message]) -> int:
    """One after the other; how many were of no use."""
    useless = 0
    for message in messages:
        record = read(message)
        if record is not None:
            advance(found, message.append_ms)
        try:
            fold(found, record, message.append_ms) if record else None
        except BadRecord:
            record = None
        useless += record is None
    return useless


def fold_at_once(found: Pool, sheet: Sheet) -> bool:
    return fold_placed(found, place(found, sheet), 0, len(sheet.headings))


@pytest.mark.parametrize("seed", range(60))
def test_reports_in_one_table_are_the_same_as_one_after_the_other(seed: int) -> None:
    dice = random.Random(seed)
    messages = run(dice, dice.choice((0, 0, 0.2)))
    together, single = pool(), pool()
    before, useless = to_rows(together), fold_each(single, messages)
    sheet = read_sheet("chat", messages)
    if sheet is None:
        return
    reports = [read(message) for message in messages]
    assert all(reports)
    names = sheet.names
    assert len(set(names)) == len(names)
    at = 0
    for each in filter(None, reports):
        rows, totals = len(each.totals.tenant), each.totals
        for name in COLUMNS:
            column = sheet.columns.get(name, np.zeros_like(sheet.tenant))
            assert column[at : at + rows].tolist() == list(getattr(totals, name) or [0] * rows)
        found = [names[place] for place in sheet.tenant[at : at + rows].tolist()]
        assert found == [totals.names[place] for place in totals.tenant]
        at += rows
    if fold_at_once(together, sheet):
        assert not useless
        assert to_rows(together) == to_rows(single)
    else:
        assert to_rows(together) == before
        assert useless


@pytest.mark.parametrize("seed", range(20))
def test_a_table_in_parts_is_the_same_as_whole(seed: int) -> None:
    dice = random.Random(seed)
    messages = run(dice, 0)
    whole, in_parts = pool(), pool()
    sheet = read_sheet("chat", messages)
    if sheet is None or not fold_at_once(whole, sheet):
        return
    cuts = {0, *(dice.randrange(len(messages)) for _ in range(2)), len(messages)}
    placed = place(in_parts, sheet)
    for begin, end in pairwise(sorted(cuts)):
        assert fold_placed(in_parts, placed, begin, end)
    assert to_rows(in_parts) == to_rows(whole)


def test_sound_reports_are_read_at_once() -> None:
    dice = random.Random(4)
    for _ in range(40):
        messages = run(dice, 0)
        if not any((value.value or b"").endswith(BLOCKS[-1]) for value in messages):
            assert read_sheet("chat", messages) is not None


@pytest.mark.parametrize("length", [0, 1, 7, 36, 63, 64])
def test_names_of_one_length_are_told_apart(length: int) -> None:
    dice = random.Random(length)
    known = [f"{dice.randrange(10**length):0{length}}"[:length] for _ in range(20)]
    reports = []
    for number in range(1, 30):
        names = dice.sample(known, k=dice.randint(1, len(known)))
        rows = [*range(len(names))]
        totals = Totals(names, rows, rows, *([] for _ in COLUMNS))
        reports.append(UsageReport("chat", "a", number, 0, False, False, 0, totals, b""))
    messages = [Message(0, START, b"chat", encode(report)) for report in reports]
    sheet = read_sheet("chat", messages)
    assert sheet is not None
    assert len(set(sheet.names)) == len(sheet.names)
    found = [sheet.names[place] for place in sheet.tenant.tolist()]
    assert found == [name for report in reports for name in report.totals.names]


def test_what_is_not_sound_is_left_to_who_can_tell_why() -> None:
    dice = random.Random(5)
    (*_, last), first = run(dice, 0), Message(0, START, b"chat", encode(spec()))
    assert read_sheet("chat", [first]) is None
    assert read_sheet("chat", [replace(last, value=None)]) is None
    assert read_sheet("other", [last]) is None
    told = report(dice, "a", 1)
    for wrong in (
        replace(told, sequence=0),
        replace(told, applied=-1),
        replace(told, age_ms=-1),
        replace(told, age_ms=MOST_AGE_MS + 1),
    ):
        assert read_sheet("chat", [replace(last, value=encode(wrong))]) is None
    empty = Totals(["a"], [0], [], *([] for _ in COLUMNS))
    lone = replace(report(dice, "a", 1), totals=empty)
    assert read_sheet("chat", [replace(last, value=encode(lone))]) is None


@pytest.mark.parametrize("count", [2**20, 2**40, 2**54, -1])
def test_more_names_than_there_are_bytes_are_not_looked_for(count: int) -> None:
    told = replace(report(random.Random(6), "a", 1), totals=Totals(["b"], *([] for _ in range(17))))
    value = encode(told)
    at = value.index(b"\x02\x02b\x00")
    long = bytearray()
    left = count << 1 ^ count >> 63
    while left > 127:
        long.append(left & 127 | 128)
        left >>= 7
    value = value[:at] + bytes([*long, left]) + value[at + 1 :]
    assert read_sheet("chat", [Message(0, START, b"chat", value)]) is None


def test_a_report_that_obeys_what_was_never_decided_is_looked_at_alone() -> None:
    early = replace(report(random.Random(7), "a", 1), applied=START + 1)
    sheet = read_sheet("chat", [Message(0, START, b"chat", encode(early))])
    found = pool()
    before = to_rows(found)
    assert sheet is not None
    assert not fold_at_once(found, sheet)
    assert to_rows(found) == before
