"""A decision's bytes are the same, however they are written."""

import random
from dataclasses import replace

import pytest

from tests.pools import START, pool_with, report, spec, step, tenant
from tokenweir.journal_bytes import COLUMNS, encode_entry
from tokenweir.records.journal import DecisionEntry, JournalEntry
from tokenweir.records.spec import CLASSES
from tokenweir.wire import encode


def decision() -> JournalEntry:
    pool = pool_with(spec(*(tenant(f"team-{place}", "elastic", 9) for place in range(3))))
    step(pool, report("a", 1, {"team-1": 40}), START + 200)
    decided = step(pool, report("a", 2, {"größer": 7}), START + 1_200)
    assert decided is not None
    return decided.entries[0]


def with_rows(entry: JournalEntry, dice: random.Random, rows: int, most: int) -> JournalEntry:
    assert isinstance(entry.body, DecisionEntry)
    columns = {name: [dice.randint(-most, most) for _ in range(rows)] for name in COLUMNS}
    if dice.random() < 0.5:
        columns |= {name: [] for name in COLUMNS[-dice.randint(1, 3) :]}
    if dice.random() < 0.2:
        columns[COLUMNS[2]] = []
    names = [dice.choice(("team", "größer", "x" * 80)) for _ in range(rows)]
    classes = [dice.choice(CLASSES) for _ in range(rows)]
    figures = replace(entry.body.tenants, tenant=names, service_class=classes, **columns)
    return replace(entry, body=replace(entry.body, tenants=figures))


def test_a_decision_of_the_core_has_the_same_bytes() -> None:
    entry = decision()
    assert encode_entry(entry) == encode(entry)


@pytest.mark.parametrize("most", [0, 1, 63, 64, 9_000, 10**13, 2**62, 2**63 - 1])
def test_numbers_of_all_sizes_have_the_same_bytes(most: int) -> None:
    dice = random.Random(most)
    for rows in (0, 1, 2, 70, 200):
        for _ in range(4):
            entry = with_rows(decision(), dice, rows, most)
            assert encode_entry(entry) == encode(entry)
