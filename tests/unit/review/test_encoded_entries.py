"""A decision's bytes are the same, however they are written."""

import random
from dataclasses import replace

import numpy as np
import pytest

from tests.pools import START, pool_with, report, spec, step, tenant
from tokenweir.core.figures import VALUES, Shown
from tokenweir.core.step import Decided
from tokenweir.records.journal import GatewayFigures, QuotaFigures, TenantFigures
from tokenweir.records.spec import CLASSES
from tokenweir.review.encoded.entries import encode_decided
from tokenweir.wire import encode

NAMES = ("team", "größer", "x" * 80)


def decision() -> Decided:
    pool = pool_with(spec(*(tenant(f"team-{place}", "elastic", 9) for place in range(3))))
    step(pool, report("a", 1, {"team-1": 40}), START + 200)
    decided = step(pool, report("a", 2, {"größer": 7}), START + 1_200)
    assert decided is not None
    return decided


def with_rows(decided: Decided, dice: random.Random, rows: int, most: int) -> Decided:
    def names(count: int) -> list[str]:
        return [dice.choice(NAMES) for _ in range(count)]

    def numbers(count: int) -> list[int]:
        return [dice.randint(-most, most) for _ in range(count)]

    shown = Shown(
        names(rows),
        np.array([dice.randrange(len(CLASSES)) for _ in range(rows)], dtype=np.int64),
        np.array([numbers(rows) for _ in VALUES], dtype=np.int64),
        numbers(dice.choice((0, rows))),
        numbers(dice.choice((0, rows))),
    )
    gateways = GatewayFigures(names(rows), *(numbers(rows) for _ in range(5)))
    columns = [numbers(rows) for _ in range(3)]
    quotas = QuotaFigures(names(rows), names(rows), names(rows), *columns)
    total, level = numbers(2)
    grounds = decided.grounds._replace(
        tenants=shown, gateways=gateways, total=total, quotas=dice.choice((quotas, QuotaFigures()))
    )
    now = replace(decided.decision, pool=dice.choice(NAMES), level=level)
    return replace(decided, decision=now, grounds=grounds._replace(decision=now))


def test_a_decision_of_the_core_has_the_same_bytes() -> None:
    decided = decision()
    assert encode_decided(decided) == encode(decided.entries[0])


@pytest.mark.parametrize("most", [0, 1, 63, 64, 9_000, 10**13, 2**52, 2**53, 2**62, 2**63 - 1])
def test_numbers_of_all_sizes_have_the_same_bytes(most: int) -> None:
    dice = random.Random(most)
    for rows in (0, 1, 2, 70, 200):
        for _ in range(4):
            decided = with_rows(decision(), dice, rows, most)
            assert encode_decided(decided) == encode(decided.entries[0])


def test_figures_are_in_the_order_of_the_records_columns() -> None:
    names = TenantFigures.__dataclass_fields__
    assert (*names,) == ("tenant", "service_class", *VALUES, "sequences", "kv_bytes")
