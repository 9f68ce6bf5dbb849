"""What happened second by second in a run, for tables and plots."""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from tokenweir.sim.job import NEVER
from tokenweir.sim.world import Record

POOL = "pool"
MOST_LINES = 6  # tenants shown one by one; more are shown as crowds, or as one


@dataclass(frozen=True, slots=True)
class Series:
    """Arrays of shape (seconds,); NaN where there is nothing to say.

    Requests count in the second in which they were asked, tokens in that in which they were done.
    """

    requests: np.ndarray
    refused: np.ndarray
    tokens: np.ndarray  # charged, a second
    ttft: np.ndarray  # s, mean of those asked in that second
    weight: np.ndarray
    grant: np.ndarray  # tokens/s
    level: np.ndarray  # of the pool only, as all that follow
    queue: np.ndarray
    running: np.ndarray


def series(record: Record) -> Mapping[str, Series]:
    """One a tenant or crowd, and one of the pool."""
    groups = _groups(record)
    seconds = max(-(-record.scenario.duration // 1000), 1)
    found = {name: _empty(seconds) for name in (*dict.fromkeys(groups.values()), POOL)}
    for columns in found.values():
        for array in (columns.requests, columns.refused, columns.tokens):
            array[:] = 0
    for name in found:
        _requests(record, found[name], {one for one, group in groups.items() if group == name})
    _requests(record, found[POOL], set(groups))
    for sample in record.samples:
        second = int(sample.at // 1000)
        if second < seconds:
            found[POOL].queue[second], found[POOL].running[second] = sample.queue, sample.running
    _decisions(record, found, groups)
    return found


def _groups(record: Record) -> dict[str, str]:
    """The line that each tenant is shown in."""
    crowds = list(record.scenario.crowds)
    groups = {}
    for name in record.scenario.workloads:
        crowd = next((one for one in crowds if fnmatchcase(name, f"{one}-?????")), None)
        groups[name] = f"{crowd}-*" if crowd else name
    many = len(set(groups.values())) > MOST_LINES
    return dict.fromkeys(groups, "*") if many else groups


def _empty(seconds: int) -> Series:
    return Series(*(np.full(seconds, np.nan) for _ in Series.__dataclass_fields__))


def _requests(record: Record, columns: Series, tenants: set[str]) -> None:
    seconds = len(columns.requests)
    waited = np.zeros(seconds)
    served = np.zeros(seconds)
    for job in record.jobs:
        if job.tenant not in tenants:
            continue
        born = min(int(job.born // 1000), seconds - 1)
        columns.requests[born] += 1
        if job.first != NEVER:
            served[born] += 1
            waited[born] += job.first - job.born
        if job.outcome == "done":
            columns.tokens[min(int(job.ended // 1000), seconds - 1)] += job.charge
    for refusal in record.refusals:
        if refusal.tenant in tenants:
            columns.refused[min(int(refusal.at // 1000), seconds - 1)] += 1
    some = served > 0
    columns.ttft[some] = waited[some] / served[some] / 1000


def _decisions(record: Record, found: Mapping[str, Series], groups: Mapping[str, str]) -> None:
    for taken in record.decisions:
        second = int(taken.at // 1000)
        if not 0 <= second < len(found[POOL].level):
            continue
        found[POOL].level[second] = taken.decision.level / 1e6
        found[POOL].grant[second] = taken.decision.granted / 1000
        figures = taken.entry.tenants
        rows = zip(figures.tenant, figures.weight, figures.grant, strict=True)
        for tenant, weight, grant in rows:
            if tenant in groups:
                columns = found[groups[tenant]]
                columns.weight[second] = weight / 1e6
                columns.grant[second] = np.nansum([columns.grant[second], grant / 1000])
