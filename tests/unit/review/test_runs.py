"""A log that is folded many reports at once is the same as live, where they came one by one."""

import random
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest

from tests.pools import START, report, spec, tenant
from tests.recordings import messages, recorded
from tokenweir.core.pool import new_pool
from tokenweir.core.step import UsageRecord
from tokenweir.records.spec import TokenWeights
from tokenweir.records.usage import CapacityReport
from tokenweir.review.fold import PoolFold
from tokenweir.review.replay import replay
from tokenweir.review.runs import runs
from tokenweir.review.span import Span
from tokenweir.rows import to_rows
from tokenweir.usage_log import Message

NAMES = [f"team-{place}" for place in range(9)]


def busy(interval_ms: int) -> Iterator[tuple[int, UsageRecord | bytes]]:
    """Four gateways, ten reports a second each; now and then what changes or cannot be used."""
    dice, at_ms = random.Random(interval_ms), START
    claims = [tenant(name, "elastic", 90) for name in NAMES]
    yield START - 400, spec(*claims, interval_ms=interval_ms)
    sequence = dict.fromkeys("abcd", 0)
    for place in range(350):
        at_ms += dice.choice((10, 25, 40)) if dice.random() < 0.99 else 2_700
        gateway = dice.choice("abcd")
        sequence[gateway] += dice.choice((1, 1, 1, 1, 0, 2))
        used = {dice.choice((*NAMES, "new")): dice.randint(1, 90) for _ in range(6)}
        applied = max((at_ms - 2 * interval_ms) // interval_ms * interval_ms, START)
        told = report(
            gateway,
            sequence[gateway],
            used,
            refused={name: 5 for name in used if dice.random() < 0.2},
            sequences=used,
            applied=dice.choice((0, applied)) if at_ms > START + 2 * interval_ms else 0,
            more=dice.random() < 0.1,
            row_age_ms=dice.choice((0, 0, 0, 3_000)),
        )
        if place % 90 == 60:
            yield at_ms, CapacityReport("chat", "x", dice.choice((4, 8, 12)) * 10**6, None, None)
        elif place % 90 == 65:  # other weights, tenants and seconds in the window
            now = place // 90 + 2
            other = spec(
                *claims[now % 3 :], version=now, interval_ms=interval_ms, window_s=60 + now
            )
            yield at_ms, replace(other, token_weights=TokenWeights(1_000_000, 0, 500_000 * now))
        elif place % 90 == 70:
            yield at_ms, b"\xc3\x01" + bytes(20)
        elif place % 90 == 80:
            yield at_ms, replace(told, applied=at_ms * 2)
        else:
            yield at_ms, told


@pytest.mark.parametrize("interval_ms", [250, 1_000, 5_000])
async def test_what_is_folded_at_once_is_the_same_as_live(interval_ms: int) -> None:
    made = recorded(messages(busy(interval_ms)))
    outcome = await replay(made, Span())
    assert outcome.is_identical
    assert outcome.same.decisions > 1
    assert outcome.unrecorded == 0


async def told(log: list[Message]) -> AsyncIterator[Message]:
    for message in log:
        yield message


async def test_a_run_reaches_a_boundary_with_its_first_message_only() -> None:
    made = recorded(messages(busy(1_000)))
    # Other pools lie in between, and are ahead of their time.
    foreign = [Message(m.offset + 1, m.append_ms + 900, b"other", m.value) for m in made.log[::7]]
    log = sorted([*made.log, *foreign], key=lambda message: message.offset)
    fold = PoolFold(new_pool("chat"), made, {})
    found, together = list[Message](), 0
    async for run in runs(fold, Span(), told(log)):
        together += run.part is not None
        for message in run.messages:
            before_ms = fold.pool.boundary_ms
            fold.take(message)
            assert message is run.messages[0] or fold.pool.boundary_ms == before_ms
        found += run.messages
    assert found == log
    assert together > 5


@pytest.mark.parametrize("interval_ms", [250, 1_000, 5_000])
async def test_terms_may_change_between_parts_of_what_was_read_at_once(interval_ms: int) -> None:
    made = recorded(messages(busy(interval_ms)))
    together, single = (PoolFold(new_pool("chat"), made, {}) for _ in range(2))
    async for run in runs(together, Span(), told(made.log)):
        together.advance(run.messages[0]) if run.part else None
        if not (run.part and together.fold_part(run.part)):
            for message in run.messages:
                together.take(message)
    for message in made.log:
        single.take(message)
    assert to_rows(together.pool) == to_rows(single.pool)
