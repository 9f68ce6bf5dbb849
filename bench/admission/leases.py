"""What a gate obeys in the benchmark: a lease for each tenant, wide enough for every request."""

from bench.admission.orders import tenants
from tokenweir.gateway.pool import PoolGate
from tokenweir.records.control import ClassState, ControlDecision, GatewayLeases, Roster
from tokenweir.records.spec import CLASSES, TokenWeights

POOL = "bench"
PART = 1000  # leases a record (L9)
LIFE_MS = 3_600_000
RATE = 10**10  # milli-tokens/s
ONE = 1_000_000


def lease(gate: PoolGate, now_ms: int) -> None:
    """Let the gate obey leases that are a second old, so that their buckets are full."""
    given_ms = now_ms - 1000
    gate.acknowledged(given_ms, given_ms, given_ms)
    names = tenants()
    parts = [names[at : at + PART] for at in range(0, len(names), PART)]
    gate.hear(Roster(POOL, 1, names, ["elastic"] * len(names), [None] * len(names)), given_ms)
    for number, some in enumerate(parts):
        gate.hear(_leases(gate.gateway, some, number, len(parts), given_ms), given_ms)
    gate.hear(_decision(len(parts), given_ms), given_ms)
    assert len(gate.leases.leased) == len(names)


def _leases(gateway: str, names: list[str], part: int, parts: int, at_ms: int) -> GatewayLeases:
    count = len(names)
    return GatewayLeases(
        pool=POOL,
        gateway=gateway,
        part=part,
        parts=parts,
        at_ms=at_ms,
        expires_ms=at_ms + LIFE_MS,
        floor_expires_ms=at_ms + LIFE_MS,
        pot_rate=0,
        pot_burst=0,
        tenant=names,
        rate=[RATE] * count,
        burst=[RATE] * count,
        floor=[0] * count,
        sequences=[-1] * count,
        kv_bytes=[-1] * count,
        ceiling_tenant=(),
        ceiling_user=(),
        ceiling_window_id=(),
        ceiling_starts_ms=(),
        ceiling_ends_ms=(),
        ceiling_tokens=(),
    )


def _decision(parts: int, at_ms: int) -> ControlDecision:
    return ControlDecision(
        pool=POOL,
        at_ms=at_ms,
        id=f"{POOL}@{at_ms}",
        spec_version=1,
        mode="enforce",
        interval_ms=1000,
        longest_request_ms=600_000,
        tier="normal",
        breaker="closed",
        breaker_refuses="borrowers",
        probe_rate=0,
        level=0,
        level_now=0,
        lent=0,
        alpha=800_000,
        capacity=RATE,
        granted=RATE,
        priority_threshold="preemptible",
        parts=parts,
        token_weights=TokenWeights(ONE, ONE, ONE),
        classes=[ClassState(name, "none", ONE, 0, "floor") for name in CLASSES],
        unknown_class="spot",
    )
