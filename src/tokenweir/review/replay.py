"""A pool's log folded again, and each decision compared with the recorded one (DESIGN, 7)."""

from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace

from tokenweir.review.comparison import Compared, Comparison
from tokenweir.review.difference import Difference
from tokenweir.review.fold import MOST, HalfFolded, PoolFold, Unfoldable
from tokenweir.review.log import Letter, PoolLog
from tokenweir.review.recorded import Recorded
from tokenweir.review.runs import Run, runs
from tokenweir.review.span import Span
from tokenweir.review.start import Begun, Mark, begin
from tokenweir.usage_log import Message


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a review is: offsets of the usage log, of which other pools have some too."""

    offset: int
    begins_at: int
    ends_at: int
    append_ms: int


Told = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a replay found. `difference` is the first one; None: all that was compared is the same.

    `alarms` are ids of entries that were written twice with different bytes (S6). `stopped` says
    why the replay did not reach the range's end, and is empty when it did. `unrecorded` counts
    decisions that the journal does not hold, before its beginning or behind its end.
    """

    pool: str
    start: Mark
    messages: int
    same: Compared
    difference: Difference | None
    alarms: tuple[str, ...]
    repeats: int
    stopped: str
    unrecorded: int
    missed_start: bool  # the range begins before the first state that is known

    @property
    def is_identical(self) -> bool:
        """Whether nothing that was compared differs."""
        return self.difference is None and not self.alarms


async def replay(log: PoolLog, span: Span, told: Told | None = None) -> Outcome:
    """Fold the log from the nearest snapshot through the range, and compare.

    Raises `BadInput` when there is nothing to begin with; errors of reading pass through.
    """
    begun = await begin(log, span)
    known, most = dict[int, Letter](begun.letters), MOST
    while True:
        try:
            return await _replay(log, span, begun, known, told, most)
        except Unfoldable as error:  # as live: load the state again, and pass this message over
            known[error.letter.offset] = error.letter
        except HalfFolded:
            most = 1
        begun = await begin(log, span)


async def _replay(
    log: PoolLog,
    span: Span,
    begun: Begun,
    letters: Mapping[int, Letter],
    told: Told | None,
    most: int,
) -> Outcome:
    pool, mark, missed = begun.pool, begun.mark, _missed(begun, span)
    entries = log.journal(mark.position)
    recorded = Recorded(entries, (mark.at_ms, mark.next_offset))
    is_cut = mark.is_blank and mark.position > 0
    comparison = Comparison(recorded, span, pool.boundary_ms, is_cut)
    fold, messages = PoolFold(pool, log, letters, most), 0
    async with aclosing(entries), aclosing(log.messages(mark.next_offset)) as found:
        async for run in runs(fold, span, found):
            taken = await _take(fold, comparison, run)
            messages += taken
            if told is not None:
                for message in run.messages[:taken]:
                    told(progress_of(begun, span, message))
            if comparison.is_over:
                break
        if span.is_open and comparison.difference is None:
            await recorded.rest()  # for repeats that differ
    return Outcome(
        pool=log.pool,
        start=mark,
        messages=messages,
        same=replace(comparison.same),
        difference=comparison.difference,
        alarms=tuple(recorded.alarms),
        repeats=recorded.repeats,
        stopped=_why(recorded) if comparison.met_break else "",
        unrecorded=comparison.unrecorded,
        missed_start=missed,
    )


async def _take(fold: PoolFold, comparison: Comparison, run: Run) -> int:
    """Fold a run; how many of its messages come before the comparison is over."""
    if run.part is not None:
        await _advance(fold, comparison, run.messages[0])
        if comparison.is_over:
            return 0
        if fold.fold_part(run.part):
            return len(run.messages)
    for place, message in enumerate(run.messages):
        await _step(fold, comparison, message)
        if comparison.is_over:
            return place
    return len(run.messages)


async def _step(fold: PoolFold, comparison: Comparison, message: Message) -> None:
    record = fold.read(message)
    if record is None:
        return
    await _advance(fold, comparison, message)
    if not comparison.is_over:
        entries = fold.fold(record, message)
        if entries:
            await comparison.noted(entries, fold.pool.boundary_ms, message.offset)


async def _advance(fold: PoolFold, comparison: Comparison, message: Message) -> None:
    before_ms = fold.pool.boundary_ms
    decided = fold.advance(message, leases=False)
    if decided is not None:
        await comparison.decided(before_ms, decided, message.offset, fold.pool)


def _why(recorded: Recorded) -> str:
    broken = recorded.broken
    return "" if broken is None else f"a break before offset {broken.next_offset}: {broken.why}"


def _missed(begun: Begun, span: Span) -> bool:
    """Whether decisions of the range lie before what the replay began with."""
    if not begun.is_snapshot or begun.pool.boundary_ms == 0:
        return False
    if span.from_offset is not None:
        return span.from_offset <= begun.mark.next_offset
    return span.from_ms is None or span.from_ms <= begun.pool.boundary_ms


def progress_of(begun: Begun, span: Span, message: Message) -> Progress:
    """How far a review of the range is at a message."""
    end = begun.bounds.end
    last = end if span.to_offset is None else min(end, span.to_offset + 1)
    return Progress(message.offset, begun.mark.next_offset, last, message.append_ms)
