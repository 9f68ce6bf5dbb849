"""`tokenweir replay`: past decisions again, and whether they are what was recorded."""

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from tokenweir.cli import figures
from tokenweir.cli.history.story import instant
from tokenweir.cli.pools import Row
from tokenweir.cli.progress import progress
from tokenweir.cli.review.log import read_span, review_log
from tokenweir.cli.settings import Settings
from tokenweir.cli.show import show_json
from tokenweir.history.instants import instant_of
from tokenweir.review.replay import Outcome, replay
from tokenweir.review.span import Span

INCOMPLETE = 3


def run(
    settings: Settings,
    pool: str | None,
    file: Path | None,
    since: str | None,
    until: str | None,
    from_offset: int | None,
    to_offset: int | None,
    output: str,
) -> int:
    """Print what the replay found; 0 all as recorded, 1 a difference, 3 not all was compared."""
    span = read_span(since, until, from_offset, to_offset)
    began_s = time.monotonic()
    outcome = asyncio.run(_replay(settings, pool, file, span))
    took_s = time.monotonic() - began_s
    missing = list(missing_words(outcome, span))
    if output == "json":
        show_json(row_of(outcome, missing, took_s))
    else:
        print("\n".join([*words_of(outcome, took_s), *missing]))
    if not outcome.is_identical:
        return 1
    return INCOMPLETE if missing else 0


async def _replay(settings: Settings, pool: str | None, file: Path | None, span: Span) -> Outcome:
    async with review_log(settings, pool, file) as log:
        with progress(f"replay of {log.pool}") as told:
            return await replay(log, span, told)


def words_of(outcome: Outcome, took_s: float) -> Iterator[str]:
    """What was found, in lines."""
    same = outcome.same
    if same.decisions:
        counted = (
            f"{same.decisions} decisions, {same.audits} audit entries, {same.snapshots} snapshots"
        )
        yield f"pool {outcome.pool}: {counted} as recorded, {same.first} to {same.last}"
    elif outcome.is_identical:
        yield f"pool {outcome.pool}: no decisions in this range"
    rate = figures.count(int(outcome.messages / max(took_s, 0.001)))
    yield f"{outcome.messages} messages in {took_s:.1f} s, {rate}/s, from {_start_words(outcome)}"
    if outcome.repeats:
        yield f"{outcome.repeats} entries of the journal are there again, with the same contents"
    for id_ in outcome.alarms:
        yield f"{id_}: recorded twice, with different contents"
    difference = outcome.difference
    if difference is not None:
        yield f"first difference: {difference.id} {difference.path}".rstrip()
        yield f"  recorded: {_short(difference.recorded)}"
        yield f"  computed: {_short(difference.computed)}"


def missing_words(outcome: Outcome, span: Span) -> Iterator[str]:
    """What of the range could not be compared, in lines."""
    asked = span.from_ms is not None or span.from_offset is not None
    if outcome.missed_start and asked:
        yield f"not compared: what is before {_start_words(outcome)}; no state before it is known"
    if outcome.stopped:
        yield f"not compared: what comes behind {outcome.stopped}"
    if outcome.unrecorded and not span.is_open:
        yield f"not compared: {outcome.unrecorded} decisions that the journal does not have"


def row_of(outcome: Outcome, missing: list[str], took_s: float) -> Row:
    """The exact figures."""
    difference = outcome.difference
    return {
        "pool": outcome.pool,
        "identical": outcome.is_identical,
        "decisions": outcome.same.decisions,
        "audit_entries": outcome.same.audits,
        "snapshots": outcome.same.snapshots,
        "first_decision": outcome.same.first or None,
        "last_decision": outcome.same.last or None,
        "difference": None if difference is None else _plain(asdict(difference)),
        "recorded_twice_with_different_contents": list(outcome.alarms),
        "repeated_entries": outcome.repeats,
        "unrecorded_decisions": outcome.unrecorded,
        "not_compared": missing,
        "starts_at_ms": outcome.start.at_ms or None,
        "starts_at_offset": outcome.start.next_offset,
        "messages": outcome.messages,
        "took_s": round(took_s, 3),
    }


def _start_words(outcome: Outcome) -> str:
    start = outcome.start
    if start.is_blank:
        return f"the log's start at offset {start.next_offset}"
    at = instant(instant_of(start.at_ms))
    return f"the snapshot of {at}, offset {start.next_offset}"


def _short(value: Any) -> str:
    text = json.dumps(_plain(value), ensure_ascii=False)
    return text if len(text) <= 300 else f"{text[:300]} …"


def _plain(value: Any) -> Any:
    """What JSON can say: records as objects, bytes in hexadecimal."""
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value.hex() if isinstance(value, bytes) else value
