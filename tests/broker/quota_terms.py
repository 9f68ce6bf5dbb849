"""The quota runs: who asks for how much where, and how long everything takes.

Every tenant with a quota asks for half as much again as its quota. The tenants with a floor have
none, and ask for more than a lease gives.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tokenweir.records.spec import ServiceClass

POOL = "shared"
GATEWAYS = 4
QUOTA = 100_000  # charged tokens a minute, of each of LOADS' tenants
OFFERED = 1.5 * QUOTA
WINDOW_MS = 60_000
CAPACITY = 40_000  # tokens/s: of tenants with a quota the quota alone is the limit
# tenant: the share of its load at each gateway
LOADS: Mapping[str, Sequence[float]] = {
    "equal": (0.25, 0.25, 0.25, 0.25),
    "skewed": (0.7, 0.2, 0.05, 0.05),
    "moving": (1, 1, 1, 1),  # all of it, at one gateway after the other
    "single": (0, 1, 0, 0),
}
CLASSES_OF: Mapping[str, ServiceClass] = {
    "ded": "dedicated",
    "gua": "guaranteed",
    "ela": "elastic",
    "spo": "spot",
}
FLOORS = [name for name, of in CLASSES_OF.items() if of != "spot"]
FLOOR = 250  # tokens/s of each tenant with a floor, at each gateway
# A baseline is split by what is asked for, which is about the same at each gateway.
LEAST, MOST = 0.7 * FLOOR, 1.3 * FLOOR
ASKED = 1_000
LARGEST = 800  # tokens of a request's estimate
OVER = 1.2  # the most that a request uses, by its estimate
HOLD_S = 0.05  # the longest that a request runs


@dataclass(frozen=True, slots=True)
class Terms:
    """How long leases and cuts are."""

    interval_ms: int
    lease_ms: int
    floor_ms: int
    cut_ms: int
    windows: int  # with everything well


SCALED = Terms(interval_ms=1_000, lease_ms=5_000, floor_ms=120_000, cut_ms=20_000, windows=1)
FULL = Terms(interval_ms=1_000, lease_ms=15_000, floor_ms=600_000, cut_ms=300_000, windows=4)


def wanted(tenant: str, place: int, now_ms: int) -> float:
    """Tokens/s that a tenant asks for at a gateway."""
    if tenant in CLASSES_OF:
        return ASKED
    whole = OFFERED * 1000 / WINDOW_MS
    if tenant == "moving":
        moves_ms = WINDOW_MS * 2 // 5  # not in step with the windows
        return whole if now_ms // moves_ms % GATEWAYS == place else 0
    return whole * LOADS[tenant][place]
