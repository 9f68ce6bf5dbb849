"""What a pool can do: its engines added up, and when that is worth a report."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tokenweir.capacity.engine import Engine
from tokenweir.capacity.sample import Sample
from tokenweir.records.usage import CapacityReport

EVERY_S = 60.0  # a spec or `capacity set` that came between holds no longer than that
TOLERANCE = 0.05  # a smaller change waits for its minute


@dataclass(frozen=True, slots=True)
class Each:
    """What one engine can do as far as somebody has said it; None is not said."""

    rate: int | None = None  # milli-tokens/s, until it is measured
    kv_bytes_per_token: int | None = None
    sequences: int | None = None


@dataclass(frozen=True, slots=True)
class Sent:
    """The report before, and when it was sent."""

    at_s: float
    report: CapacityReport


def estimate(
    pool: str, source: str, servers: Sequence[Engine], each: Each
) -> CapacityReport | None:
    """The capacity of the servers that answer; those that are down count 0.

    None until every server has answered or is down; while none has ever answered, which is more
    likely a wrong address than a loss; and when nothing is known. A resource is left as it is while
    the part of one server is not known, answering or not: or the pool would stay at 0 when servers
    of unknown strength come back.
    """
    if any(server.is_up is None for server in servers):
        return None
    met = [server for server in servers if server.last is not None]
    report = CapacityReport(
        pool,
        source,
        tokens_per_s=_sum(met, lambda server, last: _rate(server, last, each)),
        kv_bytes=_sum(met, lambda server, last: _kv_bytes(last, each)),
        sequences=_sum(met, lambda server, last: _times(each.sequences, last.engines)),
    )
    known = (report.tokens_per_s, report.kv_bytes, report.sequences)
    return None if not met or known == (None, None, None) else report


def is_due(sent: Sent | None, report: CapacityReport, now_s: float) -> bool:
    """Whether to send it: the first, a change beyond the tolerance, and one a minute."""
    if sent is None or now_s - sent.at_s >= EVERY_S:
        return True
    return any(
        _differs(getattr(sent.report, name), getattr(report, name))
        for name in ("tokens_per_s", "kv_bytes", "sequences")
    )


def _differs(before: int | None, now: int | None) -> bool:
    if before is None or now is None:
        return before is not now
    return abs(now - before) > TOLERANCE * max(before, now)


def _rate(server: Engine, last: Sample, each: Each) -> int | None:
    return _times(each.rate, last.engines) if server.rate is None else server.rate


def _kv_bytes(last: Sample, each: Each) -> int | None:
    return _times(each.kv_bytes_per_token, last.kv_tokens)


def _times(one: int | None, many: int | None) -> int | None:
    return None if one is None or many is None else one * many


def _sum(met: Sequence[Engine], part: Callable[[Engine, Sample], int | None]) -> int | None:
    """Of the servers that are up; None when the part of any is not known."""
    total = 0
    for server in met:
        known = part(server, server.last) if server.last else None
        if known is None:
            return None
        total += known if server.is_up else 0
    return total
