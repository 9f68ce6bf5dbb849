"""The rows that requests leave, and the columns that a report carries (PROTOCOL T5, T6)."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from tokenweir.records.usage import Flow, RequestsBlock, Status, Totals

# One row of a RequestsBlock: its columns after `names`, in their order, with names in place of
# indexes and, second to last, the gateway's own time in place of the age.
Row: TypeAlias = tuple[
    str | int,  # id; a number of the gateway's own is written out in the block
    int,  # attempt
    str,  # tenant
    str,  # user
    str,  # model
    str,  # operation
    str,  # provider tier
    str,  # reason
    Status,
    Flow,
    int,  # priority
    int,  # tokens uncached
    int,  # tokens written to a cache
    int,  # tokens cached
    int,  # tokens out
    int,  # refused tokens
    bool,  # estimated
    bool,  # error
    int,  # KV bytes
    int,  # wait in ms
    int,  # duration in ms
    int,  # own time in ms
    int,  # decision
]
# In flight, sequences, KV bytes, held tokens, queued, queued tokens: as they stand at the cut.
Gauge: TypeAlias = tuple[tuple[str, str], list[int]]
_ENDED = ("done", "cancelled", "expired")
_GAUGES = 6


class _Names:
    """A string dictionary: each name once, its place is its index."""

    def __init__(self, *first: str) -> None:
        self._index = {name: place for place, name in enumerate(first)}

    def index(self, names: Iterable[str]) -> list[int]:
        known = self._index
        return [known.setdefault(name, len(known)) for name in names]

    def listed(self) -> list[str]:
        return [_clean(name) for name in self._index]


def requests_block(rows: Sequence[Row], gateway: str, now_ms: int) -> RequestsBlock:
    """The rows of this gateway in columns; ages are up to `now_ms`, the cut."""
    names = _Names("")
    columns = tuple(zip(*rows, strict=True))
    ids, attempt, tenant, user, model, operation, provider_tier, reason = columns[:8]
    status, flow, priority, uncached, cache_write, cached, out, refused = columns[8:16]
    estimated, error, kv_bytes, wait, duration, at_ms, decision = columns[16:]
    return RequestsBlock(
        id=[_clean(id) if type(id) is str else f"{gateway}/{id}" for id in ids],
        attempt=attempt,
        tenant=names.index(tenant),
        user=_numbers(names.index(user)),
        model=_numbers(names.index(model)),
        operation=_numbers(names.index(operation)),
        provider_tier=_numbers(names.index(provider_tier)),
        reason=_numbers(names.index(reason)),
        status=status,
        flow=flow,
        priority=priority,
        tokens_uncached=_numbers(uncached),
        tokens_cache_write=_numbers(cache_write),
        tokens_cached=_numbers(cached),
        tokens_out=_numbers(out),
        refused_tokens=_numbers(refused),
        estimated=estimated,
        error=error,
        kv_bytes=_numbers(kv_bytes),
        wait_ms=_numbers(wait),
        duration_ms=_numbers(duration),
        age_ms=_numbers([now_ms - at for at in at_ms]),
        decision=_numbers(decision),
        names=names.listed(),
    )


def totals(rows: Iterable[Row], gauges: Iterable[Gauge], now_ms: int) -> Totals:
    """What the rows add up to, and the gauges, a row a (tenant, user)."""
    counted = _counted(rows)
    standing = dict(gauges)
    keys = list(dict.fromkeys((*counted, *standing)))
    names = _Names()
    nothing = [now_ms, *[0] * 8]
    counters = [counted.get(key, nothing) for key in keys]
    empty = [0] * _GAUGES
    columns = [_numbers(column) for column in zip(*counters, strict=True)] or [[]] * 9
    levels = [standing.get(key, empty) for key in keys]
    gauged = [_numbers(column) for column in zip(*levels, strict=True)] or [[]] * _GAUGES
    return Totals(
        tenant=names.index(tenant for tenant, _ in keys),
        user=names.index(user for _, user in keys),
        age_ms=_numbers([now_ms - row[0] for row in counters]),
        requests=columns[1],
        errors=columns[2],
        tokens_uncached=columns[3],
        tokens_cached=columns[4],
        tokens_out=columns[5],
        refused=columns[6],
        refused_tokens=columns[7],
        wait_ms=columns[8],
        in_flight=gauged[0],
        sequences=gauged[1],
        kv_bytes=gauged[2],
        held_tokens=gauged[3],
        queued=gauged[4],
        queued_tokens=gauged[5],
        names=names.listed(),
    )


def _counted(rows: Iterable[Row]) -> dict[tuple[str, str], list[int]]:
    """By (tenant, user): the newest row's time, then the counters in the order of `Totals`."""
    counted: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        key = (row[2], row[3])
        line = counted.get(key)
        if line is None:
            line = counted[key] = [0] * 9
        status = row[8]
        line[0] = row[21]  # rows come in the order of their times
        if status == "refused":
            line[6] += 1
            line[7] += row[15]
            continue
        if status in _ENDED:
            line[1] += 1
            line[2] += row[17]
        line[3] += row[11]
        line[4] += row[13]
        line[5] += row[14]
        line[8] += row[19]
    return counted


def _clean(name: str) -> str:
    # A lone surrogate, as broken JSON gives, must not take a whole report with it.
    return name if name.isascii() else name.encode("utf-8", "replace").decode()


def _numbers(column: Sequence[int]) -> Sequence[int]:
    """An empty column says that all of its values are 0."""
    return column if any(column) else []
