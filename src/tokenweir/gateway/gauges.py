"""What stands in a pool at a cut: requests in flight and waiting, by (tenant, user)."""

from typing import TYPE_CHECKING

from tokenweir.gateway.charge import charged
from tokenweir.gateway.rows import Gauge

if TYPE_CHECKING:
    from tokenweir.gateway.pool import PoolGate


def gauges(gate: "PoolGate") -> list[Gauge]:
    """Whole: who is absent has nothing in flight and nothing waiting (R2)."""
    standing: dict[tuple[str, str], list[int]] = {}
    for request in gate.holds:
        sent = charged(gate.weights, *request.sent)
        line = standing.setdefault((request.tenant, request.user), [0] * 6)
        line[0] += 1
        line[1] += request.sequences
        line[2] += request.kv_bytes
        line[3] += max(request.held // 1000 - sent, 0)
    for request in gate.lines:
        line = standing.setdefault((request.tenant, request.user), [0] * 6)
        line[4] += 1
        line[5] += request.cost // 1000
    return list(standing.items())
