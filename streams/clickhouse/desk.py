"""Runs queries for the front: so many at once, so many waiting, each in a thread of its own."""

import asyncio
import contextlib
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

from streams.clickhouse.compression import Encoder
from streams.clickhouse.engine import Engine
from streams.clickhouse.errors import QueryError, refusal
from streams.clickhouse.native import WITH_CUSTOM_SERIALIZATION, for_revision
from streams.clickhouse.pipe import Abandoned, Pipe
from streams.clickhouse.request import Query

_CONTROL_THREADS: Final = 4  # for KILL and cancelling, which must not wait behind queries
_OVERTIME_S: Final = 5.0
_AGAIN_S: Final = 0.2  # between requests to end a query

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Job:
    """A query that runs or waits for its turn."""

    query: Query
    pipe: Pipe
    work: asyncio.Future[None]


class Desk:
    """Takes queries in the event loop and gives back the pipe of each answer."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._limits = engine.limits
        self._threads = ThreadPoolExecutor(engine.limits.queries, "query")
        self._control = ThreadPoolExecutor(_CONTROL_THREADS, "control")
        self._jobs: dict[str, Job] = {}
        self._endings: set[asyncio.Task[None]] = set()
        self._closing = False

    def start(self, query: Query, encoder: Encoder) -> Pipe:
        """Run a query; raises `QueryError` if there are too many, or its id runs already."""
        if self._closing:
            raise refusal(394, "The server is shutting down.")
        if query.query_id in self._jobs:
            raise refusal(216, f"Query with id = {query.query_id} is already running.")
        kill = query.statement.verb == "KILL"
        if len(self._jobs) >= self._limits.queries + self._limits.waiting and not kill:
            raise refusal(202, f"Too many simultaneous queries: {len(self._jobs)} run or wait.")
        pipe, loop = Pipe(), asyncio.get_running_loop()
        pool = self._control if kill else self._threads
        work = loop.run_in_executor(pool, _produce, self.engine, query, encoder, pipe)
        self._jobs[query.query_id] = job = Job(query, pipe, work)
        alarm = loop.call_later(self._limits.longest_s + _OVERTIME_S, self._end, job)
        work.add_done_callback(lambda _: alarm.cancel())
        work.add_done_callback(lambda _: self._jobs.pop(query.query_id))
        return pipe

    def leave(self, query: Query, pipe: Pipe) -> None:
        """Forget an answer whose client has gone; an INSERT still runs to its end."""
        pipe.abandon()
        job = self._jobs.get(query.query_id)
        if job and query.statement.verb != "INSERT":
            self._end(job)

    def _end(self, job: Job) -> None:
        task = asyncio.create_task(self._ended(job))
        self._endings.add(task)  # the loop itself holds tasks weakly
        task.add_done_callback(self._endings.discard)

    async def _ended(self, job: Job) -> None:
        """End a job. It may not be in the engine yet: ask until it is over."""
        job.pipe.abandon()
        loop = asyncio.get_running_loop()
        while not job.work.done():
            await loop.run_in_executor(self._control, self.engine.cancel, job.query.query_id)
            await asyncio.wait((job.work,), timeout=_AGAIN_S)

    async def close(self, grace_s: float) -> None:
        """Let what writes end for a while, end all else, and close the engine."""
        self._closing = True
        jobs = list(self._jobs.values())
        inserts = [job.work for job in jobs if job.query.statement.verb == "INSERT"]
        await asyncio.gather(*(self._ended(job) for job in jobs if job.work not in inserts))
        if inserts:
            await asyncio.wait(inserts, timeout=grace_s)
        await asyncio.gather(*map(self._ended, jobs))
        await asyncio.to_thread(self._control.shutdown)
        await asyncio.to_thread(self._threads.shutdown)
        await asyncio.to_thread(self.engine.close)


def _produce(engine: Engine, query: Query, encoder: Encoder, pipe: Pipe) -> None:
    """Run a query to its end, in its thread; whatever happens, the pipe is told."""
    try:
        pipe.check()
        with contextlib.closing(engine.answer(query)) as pieces:
            for piece in pieces:
                pipe.put(replace(piece, data=encoder.add(_in_revision(query, piece.data))))
            pipe.put(replace(piece, data=encoder.end()))
        pipe.finish()
    except Abandoned:
        pipe.finish(refusal(394, "Query was cancelled."))
    except QueryError as error:
        pipe.finish(error)
    except Exception as error:
        log.exception("query %s failed", query.query_id)
        pipe.finish(refusal(1001, f"{type(error).__name__}: {error}"))


def _in_revision(query: Query, data: bytes) -> bytes:
    if query.format == "Native" and query.revision >= WITH_CUSTOM_SERIALIZATION:
        return for_revision(data)
    return data
