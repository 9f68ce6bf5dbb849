"""A log's messages, those together that can be folded at once.

NumPy's calls cost more than the few numbers of a report. So reports are read many at once, whatever
boundaries lie between them, and folded as many at once as reach none.
"""

from collections.abc import AsyncIterable, AsyncIterator, Sequence
from typing import NamedTuple

from tokenweir.core.sheet import Part
from tokenweir.review.fold import PoolFold
from tokenweir.review.span import Span
from tokenweir.usage_log import Message

MOST_BYTES = 1 << 22  # of reports that are read at once, some ten times as many when read


class Run(NamedTuple):
    """Messages, and what they say as reports of the pool; None: they are folded one by one."""

    messages: Sequence[Message]
    part: Part | None


async def runs(fold: PoolFold, span: Span, messages: AsyncIterable[Message]) -> AsyncIterator[Run]:
    """The messages up to the range's end; each run must be folded before the next is asked for."""
    async for ahead in _ahead(fold, span, messages):
        read, begin = fold.sheet(ahead), 0
        while begin < len(ahead):
            end, until_ms = begin + 1, fold.reach_ms(ahead[begin])
            while end < len(ahead) and ahead[end].append_ms < until_ms:
                end += 1
            run = ahead[begin:end]
            yield Run(run, _alone(fold, run) if read is None else Part(read, begin, end))
            begin = end


def _alone(fold: PoolFold, run: Sequence[Message]) -> Part | None:
    sheet = fold.sheet(run)
    return None if sheet is None else Part(sheet, 0, len(run))


async def _ahead(
    fold: PoolFold, span: Span, messages: AsyncIterable[Message]
) -> AsyncIterator[Sequence[Message]]:
    """Reports one after the other, as many as are read at once; anything else alone."""
    ahead, size = list[Message](), 0
    async for message in messages:
        if span.to_offset is not None and message.offset > span.to_offset:
            break
        is_report = fold.is_report(message)
        if ahead and not (is_report and len(ahead) < fold.most and size < MOST_BYTES):
            yield ahead
            ahead, size = [], 0
        ahead.append(message)
        size += len(message.value or b"")
        if not is_report:
            yield ahead
            ahead, size = [], 0
    if ahead:
        yield ahead
