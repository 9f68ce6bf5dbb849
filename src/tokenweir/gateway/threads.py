"""The gateway SDK for threads: `with gateway.request(…) as call`.

with SyncGateway(brokers="localhost:9092", name="edge-1", pools=["chat"]) as gateway:
    with gateway.request(tenant="acme", pool="chat", estimate=800) as call:
        ...
        call.settle(uncached=500, out=300)
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import ClassVar, Required, TypedDict, Unpack, cast

from tokenweir.gateway import gateway as asynchronous
from tokenweir.gateway.call import Call
from tokenweir.gateway.lane import Lane, OnRevoke
from tokenweir.gateway.line import MOST_WAITING
from tokenweir.gateway.monotonic import boot_ms
from tokenweir.gateway.outlet import Outlet
from tokenweir.gateway.pool import PoolGate
from tokenweir.gateway.shared import SharedGate, SharedLane, SharedOutlet
from tokenweir.gateway.standing import Standing
from tokenweir.gateway.stats import PoolStats
from tokenweir.gateway.sync_call import SyncCall
from tokenweir.records.usage import Flow


class _Threaded(asynchronous.Gateway):
    """The gateway whose core many threads share; its own work is in one event loop."""

    _gate_type: ClassVar[type[PoolGate]] = SharedGate
    _lane_type: ClassVar[type[Lane]] = SharedLane
    _outlet_type: ClassVar[type[Outlet]] = SharedOutlet
    _call_type: ClassVar[type[Call]] = cast("type[Call]", SyncCall)

    def lane(self, pool: str) -> SharedLane:
        """The lane of a pool."""
        return cast(SharedLane, self._lanes[pool])

    async def run(self, stop: asyncio.Event, started: Event) -> None:
        """Report and follow until `stop`."""
        loop = asyncio.get_running_loop()
        for pool in self._lanes:
            self.lane(pool).loop = loop
        await self.start()
        started.set()
        await stop.wait()
        await self.stop()
        for pool in self._lanes:
            self.lane(pool).loop = None


class Fields(TypedDict, total=False):
    """What a request may say of itself, as in `Gateway.request`."""

    tenant: Required[str]
    pool: Required[str]
    user: str
    estimate: int | None
    input_tokens: int | None
    max_tokens: int | None
    priority: int
    model: str
    operation: str
    provider_tier: str
    flow: Flow
    sequences: int
    kv_bytes: int
    timeout_s: float | None
    deadline: float | None
    request_id: str | None
    attempt: int
    on_revoke: OnRevoke | None


class SyncGateway:
    """`Gateway` for threads: the same arguments, promises and figures.

    Kafka is spoken to by one thread of its own; a request's thread only takes a lock for the
    microseconds of a step. `on_revoke` is called in that other thread.
    """

    def __init__(
        self,
        *,
        brokers: str,
        name: str,
        pools: Sequence[str],
        prefix: str = "",
        spool_bytes: int = asynchronous.SPOOL_BYTES,
        spool_path: Path | None = None,
        most_waiting: int = MOST_WAITING,
        on_revoke: OnRevoke | None = None,
        clock: Callable[[], int] = boot_ms,
    ) -> None:
        self._gateway = _Threaded(
            brokers=brokers,
            name=name,
            pools=pools,
            prefix=prefix,
            spool_bytes=spool_bytes,
            spool_path=spool_path,
            most_waiting=most_waiting,
            on_revoke=on_revoke,
            clock=clock,
        )
        self._stop = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None  # while it runs
        self._thread = Thread(target=self._run, name=f"tokenweir {name}", daemon=True)
        self._started = Event()

    def __enter__(self) -> "SyncGateway":
        """Start, and return at once."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop."""
        self.stop()

    @property
    def id(self) -> str:
        """The gateway's id, new for each process (R1)."""
        return self._gateway.id

    @property
    def pools(self) -> tuple[str, ...]:
        """The pools that it serves."""
        return self._gateway.pools

    @property
    def left_reports(self) -> int:
        """As `Gateway.left_reports`."""
        return self._gateway.left_reports

    def start(self) -> None:
        """Begin to report and to follow, in the background; once."""
        self._thread.start()
        self._started.wait()

    def stop(self) -> None:
        """Admit nothing more, send what is left for up to five seconds, and let go."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    def ready(self, timeout_s: float = 30.0) -> bool:
        """Wait until each pool obeys a decision; False when that takes too long."""
        if self._loop is None:
            return False
        waiting = self._gateway.ready(timeout_s)
        return asyncio.run_coroutine_threadsafe(waiting, self._loop).result()

    def request(self, **fields: Unpack[Fields]) -> SyncCall:
        """A request to enter with `with`; the arguments are those of `Gateway.request`."""
        return cast(SyncCall, self._gateway.request(**fields))

    def stats(self, pool: str) -> PoolStats:
        """The pool as this gateway sees it now."""
        with self._gateway.lane(pool).lock:
            return self._gateway.stats(pool)

    def standing(self, pool: str, tenant: str, user: str = "") -> Standing:
        """How a tenant stands now: what answers, header fields and degrading are made from."""
        with self._gateway.lane(pool).lock:
            return self._gateway.standing(pool, tenant, user)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        finally:
            self._loop = None
            self._started.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._gateway.run(self._stop, self._started)
