"""A log's messages, those together that can be folded at once."""

from collections.abc import AsyncIterable, AsyncIterator

from tokenweir.review.fold import PoolFold
from tokenweir.review.span import Span
from tokenweir.usage_log import Message


async def runs(
    fold: PoolFold, span: Span, messages: AsyncIterable[Message]
) -> AsyncIterator[list[Message]]:
    """The messages up to the range's end; each run must be folded before the next is asked for."""
    run: list[Message] = []
    async for message in messages:
        if span.to_offset is not None and message.offset > span.to_offset:
            break
        if run and not fold.joins(run, message):
            yield run
            run = []
        run.append(message)
    if run:
        yield run
