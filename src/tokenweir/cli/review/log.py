"""Which log a review reads, and which part of it."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiokafka.errors import KafkaError

from tokenweir.cli.log import quiet, silent
from tokenweir.cli.moment import read_moment
from tokenweir.cli.settings import Settings
from tokenweir.errors import BadInput, Unavailable
from tokenweir.review.container import FileLog
from tokenweir.review.kafka import KafkaLog
from tokenweir.review.log import PoolLog
from tokenweir.review.span import Span
from tokenweir.topics import Topics


@asynccontextmanager
async def review_log(
    settings: Settings, pool: str | None, file: Path | None
) -> AsyncIterator[PoolLog]:
    """The pool's log in Kafka or in a file; raises `BadInput` and `Unavailable`."""
    if file is not None:
        yield _file_log(file, pool)
        return
    if pool is None:
        raise BadInput("whose decisions? Give --pool NAME, or --file FILE of `tokenweir export`")
    quiet()
    brokers = settings.need_brokers()
    try:
        yield await KafkaLog.open(brokers, Topics(settings.topic_prefix), pool)
    except BrokenPipeError:  # the reader of our output has gone, not a broker
        raise
    except (KafkaError, TimeoutError) as error:
        raise Unavailable(silent(brokers)) from error


def read_span(
    since: str | None, until: str | None, from_offset: int | None, to_offset: int | None
) -> Span:
    """The range that the options say; raises `BadInput`."""
    now_ms = int(time.time() * 1000)
    return Span(
        read_moment("--from", since, now_ms),
        read_moment("--to", until, now_ms),
        from_offset,
        to_offset,
    )


def _file_log(file: Path, pool: str | None) -> FileLog:
    log = FileLog(file)
    if pool not in (None, log.pool):
        raise BadInput(f"--pool {pool}: {file} has the pool {log.pool}")
    return log
