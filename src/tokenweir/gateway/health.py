"""Is a gateway well? A pure function of what it shows of itself."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from tokenweir.gateway.stats import PoolStats


class Shown(Protocol):
    """What shows itself: a gateway."""

    id: str

    @property
    def pools(self) -> Sequence[str]:
        """The pools that it serves."""

    @property
    def left_reports(self) -> int:
        """Reports of earlier processes that have not been sent."""

    def stats(self, pool: str) -> PoolStats:
        """The pool as the gateway sees it now."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When something is a problem. A lease lives 15 intervals by default: red comes before."""

    silent_intervals: int = 10  # without a decision
    unsent_ms: int = 10_000  # that a report waits for its acknowledgement
    blocked_ms: int = 5_000  # without a turn of the event loop
    losing_ms: int = 60_000  # since reports were lost


@dataclass(frozen=True, slots=True)
class Health:
    """Well, or what is wrong: a sentence each, with what to look at."""

    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Nothing is wrong."""
        return not self.problems

    def body(self, **named: str) -> bytes:
        """What `/healthz` answers with, as JSON; `named` says whose health it is."""
        return json.dumps({"ok": self.ok, **named, "problems": self.problems}).encode()


LIMITS = Limits()


def health_of(gateway: Shown, limits: Limits = LIMITS) -> Health:
    """The health of all pools of a gateway now."""
    return health((gateway.stats(pool) for pool in gateway.pools), limits)


def health(pools: Iterable[PoolStats], limits: Limits = LIMITS) -> Health:
    """The health of these pools as they were looked at; the ages in them are up to that look."""
    found = (f"pool {pool.pool}: {text}" for pool in pools for text in _problems(pool, limits))
    return Health(tuple(found))


def _problems(pool: PoolStats, limits: Limits) -> Iterator[str]:
    if pool.beat_age_ms > max(limits.blocked_ms, 2 * pool.interval_ms):
        yield (
            f"its event loop has not run for {_s(pool.beat_age_ms)}: something blocks it, or the"
            " gateway has not been started"
        )
    if pool.control_age_ms is None or not pool.applied_ms:
        yield f"nothing is obeyed yet: {pool.state}"
    elif pool.control_age_ms > limits.silent_intervals * pool.interval_ms:
        yield (
            f"no decision for {_s(pool.control_age_ms)}, {pool.phase} is in force: is the control"
            " plane running, and can it be reached?"
        )
    if pool.unsent_age_ms is not None and pool.unsent_age_ms > limits.unsent_ms:
        why = pool.link_trouble or "no answer"
        yield f"{pool.spool_reports} reports wait, the oldest {_s(pool.unsent_age_ms)}: {why}"
    if pool.lost_age_ms is not None and pool.lost_age_ms < limits.losing_ms:
        yield (
            f"usage is lost: {pool.lost_reports} reports with {pool.lost_rows} rows did not fit,"
            f" the newest {_s(pool.lost_age_ms)} ago: give spool_bytes more"
        )
    if pool.spool_trouble:
        yield pool.spool_trouble


def _s(ms: int) -> str:
    return f"{ms / 1000:.1f} s"
