"""What can be measured in a run: of requests, of decisions, of the backend.

Times are in s, rates in tokens/s, weights and debts as they are read, ratios as fractions.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from math import nan
from typing import Any

import numpy as np

from tokenweir.records.journal import AuditEntry, TenantFigures
from tokenweir.sim.job import NEVER, Job
from tokenweir.sim.policy import alphas, parts_taken, pauses
from tokenweir.sim.world import Record

Floats = np.ndarray
STATS: Mapping[str, Callable[[Floats], float]] = {
    "mean": lambda values: float(np.mean(values)),
    "min": lambda values: float(np.min(values)),
    "max": lambda values: float(np.max(values)),
    "first": lambda values: float(values[0]),
    "last": lambda values: float(values[-1]),
    "p50": lambda values: float(np.percentile(values, 50)),
    "p90": lambda values: float(np.percentile(values, 90)),
    "p95": lambda values: float(np.percentile(values, 95)),
    "p99": lambda values: float(np.percentile(values, 99)),
}
COUNTS = ("requests", "completed", "answered", "gave_up", "refused", "tokens")
TIMES = ("ttft", "latency", "wait", "token_time")
DECIDED: Mapping[str, float] = {  # a column of the decision's figures, and its unit
    "grant": 1000,
    "leased": 1000,
    "floor": 1000,
    "demand": 1000,
    "weight": 1_000_000,
    "debt": 1_000_000,
    "weight_share": 1,
}
POOL = ("queue", "running", "level", "given")
POLICY = {"alpha": alphas, "taken": parts_taken, "pause": pauses}
_STAT = "|".join(STATS)
MEASURES: Mapping[re.Pattern[str], str] = {
    re.compile(pattern): shown
    for pattern, shown in (
        (f"({'|'.join(COUNTS)})", ", ".join(COUNTS)),
        (r"refused\.[a-z_]+", "refused.REASON"),
        ("qps|tokens_per_s|share", "qps, tokens_per_s, share"),
        (f"({'|'.join(TIMES)}|offered)\\.({_STAT})", f"{', '.join(TIMES)}, offered (.STAT)"),
        (f"({'|'.join(DECIDED)})\\.({_STAT})", f"{', '.join(DECIDED)} (.STAT)"),
        (f"({'|'.join(POLICY)})\\.({_STAT})", f"{', '.join(POLICY)} (.STAT)"),
        ("floor_back|starved|finished|resumed", "floor_back, starved, finished, resumed"),
        (f"({'|'.join(POOL)})\\.({_STAT})", f"{', '.join(POOL)} (.STAT)"),
        (r"utilisation|tier_changes|flaps|tier\.\w+", "utilisation, tier_changes, flaps, tier.X"),
        (r"breaker\.\w+|audits\.\w+", f"breaker.STATE, audits.KIND; STAT is {', '.join(STATS)}"),
    )
}


class Measured:
    """The measures of one run. A figure of what did not happen is NaN."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self._cache: dict[tuple[str, str], Any] = {}

    def measure(self, tenant: str, name: str, phase: str) -> float:
        """One figure; `tenant` is a pattern, or `pool`."""
        stat = name.rpartition(".")
        starts, ends = self._phase(phase)
        if stat[0] in POOL:
            return _stat(self._pool_series(stat[0], starts, ends), stat[2])
        if stat[0] in POLICY:
            return _stat(POLICY[stat[0]](self.record, tenant, starts, ends), stat[2])
        if stat[0] in DECIDED:
            return _stat(self._decided(tenant, stat[0], starts, ends), stat[2])
        if stat[0] in TIMES:
            return _stat(self._times(self._born(tenant, starts, ends), stat[0]), stat[2])
        if stat[0] == "offered":
            return _stat(self._offered(tenant, starts, ends), stat[2])
        if stat[0] in ("refused", "tier", "breaker", "audits"):
            return self._named(stat[0], stat[2], tenant, starts, ends)
        single: Mapping[str, Callable[[str, float, float], float]] = {
            "refused": lambda *at: self._named("refused", "", *at),
            "tokens": self._tokens,
            "tokens_per_s": lambda *at: self._tokens(*at) / (ends - starts) * 1000,
            "share": lambda *at: self._tokens(*at) / (self._tokens("*", starts, ends) or nan),
            "qps": self._qps,
            "utilisation": self._utilisation,
            "floor_back": self._floor_back,
            "starved": self._starved,
            "tier_changes": self._tier_changes,
            "flaps": self._flaps,
            "finished": self._last_end,
            "resumed": lambda *at: float(len(pauses(self.record, *at))),
        }
        if name in single:
            return single[name](tenant, starts, ends)
        return float(len(self._counted(name, self._born(tenant, starts, ends))))

    def _phase(self, name: str) -> tuple[float, float]:
        phase = self.record.scenario.phases.get(name)
        return (phase.starts, phase.ends) if phase else (0, self.record.scenario.duration)

    def _matching(self, tenant: str) -> list[Job]:
        found: list[Job] | None = self._cache.get(("jobs", tenant))
        if found is None:
            found = [job for job in self.record.jobs if matches(job.tenant, tenant)]
            self._cache["jobs", tenant] = found
        return found

    def _born(self, tenant: str, starts: float, ends: float) -> list[Job]:
        return [job for job in self._matching(tenant) if starts <= job.born < ends]

    def _finished(self, tenant: str, starts: float, ends: float) -> list[Job]:
        jobs = self._matching(tenant)
        return [job for job in jobs if job.outcome == "done" and starts <= job.ended < ends]

    def _counted(self, name: str, jobs: list[Job]) -> list[Job]:
        outcome = {"completed": "done", "answered": "answered", "gave_up": "refused"}.get(name)
        return jobs if outcome is None else [job for job in jobs if job.outcome == outcome]

    def _times(self, jobs: list[Job], name: str) -> Floats:
        return np.array([time for job in jobs for time in _time(job, name, self.record)]) / 1000

    def _offered(self, tenant: str, starts: float, ends: float) -> Floats:
        """Charged tokens/s that were asked for first, second by second."""
        weights = self.record.scenario.pool.token_weights
        asked = np.zeros(max(int((ends - starts) // 1000), 1))
        for job in self._born(tenant, starts, starts + 1000 * len(asked)):
            charge = job.asked[0] * weights.uncached + job.asked[1] * weights.out
            asked[int((job.born - starts) // 1000)] += charge / 1e6
        return asked

    def _decided(self, tenant: str, column: str, starts: float, ends: float) -> Floats:
        rows = self._rows(tenant, column)
        return np.array([value for at, value in rows if starts <= at < ends and value == value])

    def _rows(self, tenant: str, column: str) -> list[tuple[float, float]]:
        """(time, value) a decision: rates of several tenants are added, the rest averaged."""
        found: list[tuple[float, float]] | None = self._cache.get((column, tenant))
        if found is None:
            found = [
                (taken.at, _of(taken.entry.tenants, tenant, column))
                for taken in self.record.decisions
            ]
            self._cache[column, tenant] = found
        return found

    def _pool_series(self, name: str, starts: float, ends: float) -> Floats:
        if name in ("queue", "running"):
            samples = (one for one in self.record.samples if starts <= one.at < ends)
            return np.array([getattr(one, name) for one in samples], dtype=float)
        taken = [one for one in self.record.decisions if starts <= one.at < ends]
        if name == "level":
            return np.array([one.decision.level / 1e6 for one in taken])
        return np.array(
            [sum(one.entry.gateways.leased) / max(one.decision.capacity, 1) for one in taken]
        )

    def _named(self, kind: str, name: str, tenant: str, starts: float, ends: float) -> float:
        if kind == "refused":
            found = (
                one
                for one in self.record.refusals
                if starts <= one.at < ends and matches(one.tenant, tenant)
            )
            return float(sum(name in ("", one.reason) for one in found))
        if kind == "audits":
            audits = (one.audit for one in self.record.audits if starts <= one.at < ends)
            return float(sum(audit.kind == name and _lost(audit, tenant) for audit in audits))
        interval = self.record.scenario.pool.interval / 1000
        taken = (one.decision for one in self.record.decisions if starts <= one.at < ends)
        return interval * sum(bool(getattr(decision, kind) == name) for decision in taken)

    def _tokens(self, tenant: str, starts: float, ends: float) -> float:
        return sum(job.charge for job in self._finished(tenant, starts, ends))

    def _qps(self, tenant: str, starts: float, ends: float) -> float:
        return len(self._finished(tenant, starts, ends)) * 1000 / (ends - starts)

    def _utilisation(self, _: str, starts: float, ends: float) -> float:
        inside = [one for one in self.record.samples if starts <= one.at <= ends]
        if len(inside) < 2:
            return nan
        first, last = inside[0], inside[-1]
        return float((last.work_ms - first.work_ms) / (last.time_ms - first.time_ms))

    def _floor_back(self, tenant: str, starts: float, ends: float) -> float:
        """Seconds from the phase's start until its leases cover its floor, as it is on average."""
        floors = self._decided(tenant, "floor", starts, ends)
        rows = self._rows(tenant, "leased")
        back = (at for at, given in rows if starts <= at < ends and given >= np.mean(floors) > 0)
        return (next(back, nan) - starts) / 1000

    def _starved(self, tenant: str, starts: float, ends: float) -> float:
        """The longest run of decisions in which it had demand and was granted nothing."""
        longest = run = 0
        rows = zip(self._rows(tenant, "demand"), self._rows(tenant, "grant"), strict=True)
        for (at, demand), (_, grant) in rows:
            run = run + 1 if starts <= at < ends and demand > 0 and grant <= 0 else 0
            longest = max(longest, run)
        return float(longest)

    def _last_end(self, tenant: str, starts: float, ends: float) -> float:
        """When the last of those asked in the phase had ended; NaN if one has not."""
        times = [job.ended / 1000 for job in self._born(tenant, starts, ends)]
        return max(times, default=nan) if min(times, default=nan) >= 0 else nan

    def _tier_changes(self, _: str, starts: float, ends: float) -> float:
        return float(len(self._changes(starts, ends)))

    def _flaps(self, _: str, starts: float, ends: float) -> float:
        """The most tier changes that lie within one dwell."""
        at, dwell = self._changes(starts, ends), self.record.scenario.pool.tiers.dwell
        return float(max((sum(a <= b < a + dwell for b in at) for a in at), default=0))

    def _changes(self, starts: float, ends: float) -> list[float]:
        """When the tier was another than at the decision before."""
        taken = [one for one in self.record.decisions if starts <= one.at < ends]
        return [b.at for a, b in pairwise(taken) if a.decision.tier != b.decision.tier]


def _lost(audit: AuditEntry, tenant: str) -> bool:
    return tenant == "pool" or any(matches(name, tenant) for name in audit.lost)


def matches(name: str, pattern: str) -> bool:
    """Whether a tenant is meant; `pool` and `*` mean all."""
    return name == pattern or pattern in ("*", "pool") or fnmatchcase(name, pattern)


def _stat(values: Floats, name: str) -> float:
    return STATS[name](values) if len(values) else nan


def _time(job: Job, name: str, record: Record) -> Sequence[float]:
    """The job's time, ms, or none. What had not come when the run ended counts as long as that."""
    if job.outcome in ("refused", "answered"):
        return ()
    now = record.scenario.duration
    if name == "ttft":
        return ((job.first if job.first != NEVER else now) - job.born,)
    if name == "wait":
        return ((job.sent if job.sent != NEVER else now) - job.born,)
    if name == "latency":
        return ((job.ended if job.ended != NEVER else now) - job.born,)
    if job.outcome != "done" or job.output < 2:
        return ()
    return ((job.ended - job.first) / (job.output - 1),)


def _of(figures: TenantFigures, tenant: str, column: str) -> float:
    if column == "weight_share":
        return _share(figures, tenant)
    values = [
        value
        for name, value in zip(figures.tenant, getattr(figures, column), strict=True)
        if matches(name, tenant)
    ]
    if column in ("weight", "debt"):
        return sum(values) / len(values) / DECIDED[column] if values else nan
    return float(sum(values) / DECIDED[column])


def _share(figures: TenantFigures, tenant: str) -> float:
    """The part of all weights that a tenant, or several together, have."""
    pairs = zip(figures.tenant, figures.weight, strict=True)
    theirs = sum(weight for name, weight in pairs if matches(name, tenant))
    return theirs / (sum(figures.weight) or nan)
