"""Runs queries for the front: so many at once, so many waiting, each in a thread of its own."""

import asyncio
import contextlib
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from streams.clickhouse.compression import Encoder
from streams.clickhouse.engine import Engine
from streams.clickhouse.errors import QueryError, refusal
from streams.clickhouse.native import WITH_CUSTOM_SERIALIZATION, for_revision
from streams.clickhouse.pipe import Abandoned, Pipe
from streams.clickhouse.request import Query

_CONTROL_THREADS: Final = 4  # for KILL and cancelling, which must not wait behind queries
_OVERTIME_S: Final = 5.0

log = logging.getLogger(__name__)


class Desk:
    """Takes queries in the event loop and gives back the pipe of each answer."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._limits = engine.limits
        self._threads = ThreadPoolExecutor(engine.limits.queries, "query")
        self._control = ThreadPoolExecutor(_CONTROL_THREADS, "control")
        self._running: dict[str, asyncio.Future[None]] = {}

    def start(self, query: Query, encoder: Encoder) -> Pipe:
        """Run a query; raises `QueryError` if there are too many, or its id runs already."""
        if query.query_id in self._running:
            raise refusal(216, f"Query with id = {query.query_id} is already running.")
        kill = query.statement.verb == "KILL"
        if len(self._running) >= self._limits.queries + self._limits.waiting and not kill:
            raise refusal(202, f"Too many simultaneous queries: {len(self._running)} run or wait.")
        pipe = Pipe()
        pool = self._control if kill else self._threads
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(pool, _produce, self.engine, query, encoder, pipe)
        self._running[query.query_id] = work
        alarm = loop.call_later(self._limits.longest_s + _OVERTIME_S, self.cancel, query.query_id)
        work.add_done_callback(lambda _: alarm.cancel())
        work.add_done_callback(lambda _: self._running.pop(query.query_id))
        return pipe

    def leave(self, query: Query, pipe: Pipe) -> None:
        """Forget an answer whose client has gone; an INSERT still runs to its end."""
        pipe.abandon()
        if query.statement.verb != "INSERT":
            self.cancel(query.query_id)

    def cancel(self, query_id: str) -> None:
        """End a query if it still runs."""
        if query_id in self._running:
            self._control.submit(self.engine.cancel, query_id)

    async def close(self, grace_s: float) -> None:
        """Let what runs end for a while, then end all, and close the engine."""
        if self._running:
            await asyncio.wait(self._running.values(), timeout=grace_s)
        for query_id in list(self._running):
            self.cancel(query_id)
        await asyncio.to_thread(self._control.shutdown)
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)
        await asyncio.to_thread(self.engine.close)


def _produce(engine: Engine, query: Query, encoder: Encoder, pipe: Pipe) -> None:
    """Run a query to its end, in its thread; whatever happens, the pipe is told."""
    try:
        with contextlib.closing(engine.answer(query)) as pieces:
            for piece in pieces:
                pipe.put(replace(piece, data=encoder.add(_in_revision(query, piece.data))))
            pipe.put(replace(piece, data=encoder.end()))
        pipe.finish()
    except Abandoned:
        pass
    except QueryError as error:
        pipe.finish(error)
    except Exception as error:
        log.exception("query %s failed", query.query_id)
        pipe.finish(refusal(1001, f"{type(error).__name__}: {error}"))


def _in_revision(query: Query, data: bytes) -> bytes:
    if query.format == "Native" and query.revision >= WITH_CUSTOM_SERIALIZATION:
        return for_revision(data)
    return data
