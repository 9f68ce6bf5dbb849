"""The gateway SDK for asyncio: follows the control topic, admits, and reports."""

import asyncio
import logging
import re
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import ClassVar

from tokenweir.errors import BadInput, Unavailable
from tokenweir.gateway.call import Call
from tokenweir.gateway.disk_spool import DiskSpool, Shelf, remains
from tokenweir.gateway.follow import Follower, Keys
from tokenweir.gateway.hearing import ControlRecord
from tokenweir.gateway.lane import Lane, OnRevoke
from tokenweir.gateway.line import MOST_WAITING
from tokenweir.gateway.link import Link
from tokenweir.gateway.monotonic import boot_ms, left_ms, wall_ms
from tokenweir.gateway.outlet import Outlet, deliver
from tokenweir.gateway.pool import PoolGate
from tokenweir.gateway.request import checked
from tokenweir.gateway.spool import Outbox, Spool
from tokenweir.gateway.spool_folder import SpoolFolder
from tokenweir.gateway.standing import Standing, standing
from tokenweir.gateway.stats import PoolStats, pool_stats
from tokenweir.records.journal import DeadLetter
from tokenweir.records.usage import Flow
from tokenweir.topics import Topics, partition_of
from tokenweir.wire import encode

LOG = logging.getLogger(__name__)
SPOOL_BYTES = 32_000_000  # of all pools together
MOST_DEAD = 100  # dead letters that wait
RETRY_S = 0.5
CLOSING_S = 5.0
CHECKPOINT_S = 5.0  # of a spool on disk
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")


class Gateway:
    """Admits requests within the leases that the control plane sends, and reports their use.

    `start` never fails for want of Kafka: it keeps trying, requests get the safe answer
    meanwhile, and `stats` says what is wrong. One gateway serves the tasks of one event loop.
    With `spool_path`, a folder of this process alone, nothing that was settled is lost when the
    process is killed: the next one with the same folder tells it.
    """

    _gate_type: ClassVar[type[PoolGate]] = PoolGate
    _lane_type: ClassVar[type[Lane]] = Lane
    _outlet_type: ClassVar[type[Outlet]] = Outlet
    _call_type: ClassVar[type[Call]] = Call

    def __init__(
        self,
        *,
        brokers: str,
        name: str,
        pools: Sequence[str],
        prefix: str = "",
        spool_bytes: int = SPOOL_BYTES,
        spool_path: Path | None = None,
        most_waiting: int = MOST_WAITING,
        on_revoke: OnRevoke | None = None,
        clock: Callable[[], int] = boot_ms,
    ) -> None:
        _check(name, pools)
        self._on_revoke = on_revoke
        # New for each process (R1).
        self.id = f"{name}-{secrets.token_hex(4)}"
        self._clock = clock
        self._topics = Topics(prefix)
        self._brokers = brokers
        self._link = Link(brokers, self.id)
        self._lanes: dict[str, Lane] = {}
        self._outlets: dict[str, Outlet] = {}
        self._dead: deque[DeadLetter] = deque(maxlen=MOST_DEAD)
        self._buried = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._folder: SpoolFolder | None = None
        self._left: Shelf | None = None
        if spool_path is not None:
            self._folder = SpoolFolder(spool_path, spool_bytes, clock, wall_ms)
            self._left = remains(self._folder)
        for pool in pools:
            gate = self._gate_type(pool, self.id, most_waiting=most_waiting)
            spool = self._outbox(gate, spool_bytes // len(pools))
            outlet = self._outlet_type(gate, spool, self._link, self._topics.usage, clock)
            self._outlets[pool] = outlet
            self._lanes[pool] = self._lane_type(gate, clock, outlet.hurry)

    async def __aenter__(self) -> "Gateway":
        """Start, and return at once."""
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop."""
        await self.stop()

    async def start(self) -> None:
        """Begin to report and to follow, in the background."""
        for pool, outlet in self._outlets.items():
            self._last(f"cut {pool}", partial(outlet.beat, self._lanes[pool].expire))
        self._last("connect", self._connect)
        if self._folder is not None:
            self._last("checkpoint", partial(_checkpoint, self._folder))

    async def stop(self) -> None:
        """Admit nothing more, send what is left for up to five seconds, and let go."""
        for pool, lane in self._lanes.items():
            lane.close()
            self._outlets[pool].cut(closing=True)
        left = asyncio.gather(*(outlet.emptied() for outlet in self._outlets.values()))
        try:
            async with asyncio.timeout(CLOSING_S):
                await left
        except TimeoutError:
            LOG.warning("gateway %s: closed with reports unsent: %s", self.id, self._link.trouble)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._link.close()
        if self._folder is not None:
            await asyncio.to_thread(self._folder.close)

    async def ready(self, timeout_s: float = 30.0) -> bool:
        """Wait until each pool obeys a decision; False when that takes too long."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        while not all(lane.gate.leases.at_ms for lane in self._lanes.values()):
            if loop.time() > deadline_s:
                return False
            await asyncio.sleep(0.01)
        return True

    def request(
        self,
        *,
        tenant: str,
        pool: str,
        user: str = "",
        estimate: int | None = None,
        input_tokens: int | None = None,
        max_tokens: int | None = None,
        priority: int = 2,
        model: str = "",
        operation: str = "",
        provider_tier: str = "",
        flow: Flow = "online",
        sequences: int = 1,
        kv_bytes: int = 0,
        timeout_s: float | None = None,
        deadline: float | None = None,
        request_id: str | None = None,
        attempt: int = 1,
        on_revoke: OnRevoke | None = None,
    ) -> Call:
        """A request to enter with `async with`; entering raises `Refused` when it may not go.

        `estimate` is in charged tokens; without it, `input_tokens` are weighed with the output
        that the tenant's requests to `model` had before, `max_tokens` at most. `timeout_s` caps
        the wait (0 never waits, None waits as long as the tenant's class may), and so does
        `deadline`, a moment on `time.monotonic()`. `on_revoke` is called when the tenant is
        revoked while this runs: "suspend", "cancel", or "go on", as without it.
        """
        lane = self._lanes.get(pool)
        if lane is None:
            raise BadInput(f"pool is {pool!r}; this gateway serves {', '.join(self._lanes)}")
        call = self._call_type(
            tenant,
            user,
            estimate,
            input_tokens,
            max_tokens,
            priority,
            model,
            operation,
            provider_tier,
            flow,
            sequences,
            kv_bytes,
            None if timeout_s is None and deadline is None else _longest(timeout_s, deadline),
            request_id or "",
            attempt,
        )
        checked(call)
        call._lane, call._task, call.stopped = lane, None, None
        call.on_revoke = on_revoke or self._on_revoke
        call.actions = ()
        return call

    @property
    def pools(self) -> tuple[str, ...]:
        """The pools that it serves."""
        return tuple(self._lanes)

    @property
    def left_reports(self) -> int:
        """Reports of earlier processes with the same `spool_path` that have not been sent."""
        return 0 if self._left is None else len(self._left)

    def stats(self, pool: str) -> PoolStats:
        """The pool as this gateway sees it now."""
        outlet = self._outlets[pool]
        return pool_stats(outlet, self._link.trouble, self._clock())

    def standing(self, pool: str, tenant: str, user: str = "") -> Standing:
        """How a tenant stands now: what answers, header fields and degrading are made from."""
        lane = self._lanes[pool]
        return standing(lane.gate, tenant, user, self._clock())

    async def _connect(self) -> None:
        """Learn the partitions, then follow and send."""
        count = await self._partitions()
        reader = f"gateway {self.id}"
        keys = Keys(tuple(self._lanes), self.id)
        topic = self._topics.control
        follower = Follower(
            self._brokers, topic, keys, self._hear, self._forget, self._bury, reader
        )
        own = {pool: partition_of(pool, count) for pool in self._lanes}
        async with asyncio.TaskGroup() as group:
            group.create_task(follower.run(set(own.values())))
            group.create_task(self._send_dead())
            group.create_task(self._send_remains(count))
            for pool, outlet in self._outlets.items():
                group.create_task(outlet.send(own[pool]))

    async def _partitions(self) -> int:
        while True:
            try:
                return await self._link.partitions(self._topics.control)
            except Unavailable:
                await asyncio.sleep(RETRY_S)

    def _hear(self, pool: str, record: ControlRecord) -> None:
        self._lanes[pool].hear(record)

    def _forget(self, pool: str) -> None:
        self._lanes[pool].forget()

    def _bury(self, letter: DeadLetter) -> None:
        LOG.warning("%s@%d: %s", letter.topic, letter.offset, letter.reason)
        self._dead.append(letter)
        self._buried.set()

    async def _send_dead(self) -> None:
        while True:
            await self._buried.wait()
            while self._dead:
                letter = self._dead.popleft()
                topic = self._topics.dead_letter
                try:
                    await self._link.send(topic, None, letter.key, encode(letter))
                except Unavailable:
                    self._dead.appendleft(letter)
                    await asyncio.sleep(RETRY_S)
            self._buried.clear()

    def _outbox(self, gate: PoolGate, most_bytes: int) -> Outbox:
        if self._folder is None:
            return Spool(most_bytes)
        spool = DiskSpool(self._folder, gate.pool, gate.gateway)
        gate.rows = spool.settled
        return spool

    async def _send_remains(self, count: int) -> None:
        """Send what earlier processes left on disk; the gateways' ids are theirs."""
        while self._left is not None and (cut := self._left.head()) is not None:
            partition = partition_of(cut.report.pool, count)
            await deliver(self._link, self._topics.usage, partition, cut, self._clock)
            self._left.acknowledged()

    def _last(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work` in the background; an error in it is logged, shown, and it begins again."""

        async def lasting() -> None:
            while True:
                try:
                    await work()
                except Exception as error:
                    LOG.exception("gateway %s: %s failed", self.id, name)
                    self._link.trouble = f"{name} failed: {error!r}"
                await asyncio.sleep(RETRY_S)

        self._tasks.append(asyncio.create_task(lasting(), name=f"{self.id} {name}"))


async def _checkpoint(folder: SpoolFolder) -> None:
    await asyncio.sleep(CHECKPOINT_S)
    await asyncio.to_thread(folder.checkpoint)


def _longest(timeout_s: float | None, deadline: float | None) -> int:
    """The longest wait in ms that both allow."""
    waits = [left_ms(deadline)] if deadline is not None else []
    return min(waits + ([int(timeout_s * 1000)] if timeout_s is not None else []))


def _check(name: str, pools: Sequence[str]) -> None:
    if not _NAME.fullmatch(name):
        raise BadInput(f"name is {name!r}; allowed are 1 to 100 letters, digits, '.', '_', '-'")
    if isinstance(pools, str) or not pools:
        raise BadInput(f"pools is {pools!r}; allowed is a list of at least one pool's name")
