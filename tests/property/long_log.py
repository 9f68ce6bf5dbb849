"""One recorded log of 300 tenants, folded in a process of its own; prints a digest of all bytes.

`python -m tests.property.long_log` folds it as it is; with `mixed` the pool is restored from its
rows now and then, with blocks, tenants and gateways in another order.
"""

import hashlib
import random
import sys
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tests.pools import START, report, spec, tenant
from tokenweir.core.pool import Pool, new_pool
from tokenweir.core.step import Decided, UsageRecord, advance, fold
from tokenweir.records.rows import BlockRow, GatewayRow
from tokenweir.records.spec import (
    CLASSES,
    Entitlement,
    PoolSpec,
    ScheduledCapacity,
    TuningTerms,
    Zone,
)
from tokenweir.records.usage import CapacityReport
from tokenweir.rows import from_rows, to_rows
from tokenweir.wire import decode, encode

TENANTS = 300  # more than one block
RECORDS = 1_000
FRIDAY = 4 * 1_440  # minute of the week


def claims(dice: random.Random) -> list[Entitlement]:
    found = []
    for place in range(TENANTS):
        service_class = CLASSES[place % 5]
        baseline = dice.choice((0, 3, 7.5, 20)) if place % 5 > 1 else 0
        cap = dice.choice((None, 11, 90))
        slo_s = dice.choice((0.2, 1, 7, 30))
        found.append(
            tenant(f"team-{place:03}", service_class, baseline, borrow_cap=cap, slo_s=slo_s)
        )
    return found


def specs(dice: random.Random) -> Iterator[PoolSpec]:
    """Version after version: tenants come and go, α and baselines change."""
    everybody = claims(dice)
    for version in range(1, 10):
        some = [
            replace(claim, suspended=dice.random() < 0.02)
            for claim in everybody
            if dice.random() < 0.97
        ]
        rules = spec(
            *some,
            capacity=3_000,
            version=version,
            alpha=dice.choice((0.6, 0.8)),
            alphas={"spot": 0.5},
            window_s=dice.choice((5, 60)),
            tuning=TuningTerms(4_000, 9_000, 0, 950_000, 2_000_000),
            zones=[Zone("UTC", [0], [0])],
            # The log begins on a Friday at eight.
            schedule=[
                ScheduledCapacity("UTC", FRIDAY + 480 + minute, rate * 1_000_000, None, None)
                for minute, rate in enumerate((3, 2, 1, 4))
            ],
        )
        yield replace(rules, floor_ms=60_000)


def log() -> Iterator[tuple[int, UsageRecord]]:
    """Append times and records, the same ones each time."""
    dice = random.Random(20_270_115)
    versions = specs(dice)
    yield START, next(versions)
    at_ms, sequence, applied = START, dict.fromkeys("abcd", 0), START
    for place in range(1, RECORDS):
        at_ms += dice.choice((40, 120, 125, 130, 700)) if place % 200 else 9_000
        if place % 140 == 0:
            yield at_ms, next(versions)
        elif place % 97 == 0:
            yield at_ms, CapacityReport("chat", "x", dice.randint(1, 5) * 700_007, None, None)
        else:
            gateway = dice.choice("abcd")
            sequence[gateway] += 1
            if dice.random() < 0.8:
                applied = max(applied, (at_ms - 2_000) // 1_000 * 1_000)
            asked = {
                f"team-{dice.randrange(TENANTS + 9):03}": dice.randint(1, 19) for _ in range(40)
            }
            short = {name: value * 7 for name, value in asked.items() if value % 3 == 0}
            yield (
                at_ms,
                report(
                    gateway,
                    sequence[gateway],
                    asked,
                    refused=short,
                    sequences=asked,
                    applied=applied,
                    row_age_ms=dice.choice((0, 300, 4_000)),
                ),
            )


def published(decided: Decided) -> Iterator[bytes]:
    """All bytes of a decision, in the order in which they are published."""
    records = (*decided.leases, decided.barred, decided.roster, decided.decision)
    for record in (*records, *decided.entries):
        if record is not None:
            yield encode(record)
    yield repr(decided.gone).encode()


def mixed(pool: Pool, dice: random.Random) -> Pool:
    """The same pool, restored from rows in which nothing stands where it stood."""
    rows = [(key, _mixed_row(row, dice)) for key, row in to_rows(pool).items()]
    dice.shuffle(rows)
    return from_rows(dict(rows))


def _mixed_row(row: bytes, dice: random.Random) -> bytes:
    record = decode(row)
    order = list(range(len(record.tenant))) if hasattr(record, "tenant") else []
    dice.shuffle(order)
    if isinstance(record, BlockRow):
        values = np.frombuffer(record.values, "<i8").reshape(-1, record.columns)[order]
        names = [record.tenant[place] for place in order]
        return encode(BlockRow(names, record.columns, values.tobytes()))
    if isinstance(record, GatewayRow) and order:
        figures = np.frombuffer(record.figures, "<i8").reshape(-1, len(order))[:, order]
        issued = np.frombuffer(record.issued, "<i8").reshape(-1, len(order))[:, order]
        names = [record.tenant[place] for place in order]
        changed = replace(record, tenant=names, figures=figures.tobytes(), issued=issued.tobytes())
        return encode(changed)
    return row


def digest(*, restore: bool = False) -> str:
    """Of everything that is published, and of the rows at the end."""
    pool, found, dice = new_pool("chat"), hashlib.sha256(), random.Random(7)
    for at_ms, record in log():
        decided = advance(pool, at_ms)
        entries = fold(pool, record, at_ms)
        for part in (*(published(decided) if decided else ()), *map(encode, entries)):
            found.update(part)
        if restore and dice.random() < 0.05:
            pool = mixed(pool, dice)
    for key, row in to_rows(pool).items():
        found.update(key.encode() + row)
    return found.hexdigest()


if __name__ == "__main__":
    print(digest(restore="mixed" in sys.argv))
