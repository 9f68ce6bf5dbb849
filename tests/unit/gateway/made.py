"""Small control records, and a gate that obeys them. Rates in tokens/s, times in ms.

The pool's clock and the gateway's own are told apart: pool time is own time plus `EPOCH_MS`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tokenweir.gateway import ledger
from tokenweir.gateway.pool import PoolGate
from tokenweir.gateway.request import Request
from tokenweir.records.control import Barred, ClassState, ControlDecision, GatewayLeases, Roster
from tokenweir.records.spec import CLASSES, OnSilence, ServiceClass, TokenWeights

EPOCH_MS = 1_000_000
ONE = 1_000_000
POOL = "chat"
TENANTS: Mapping[str, ServiceClass] = {
    "ded": "dedicated",
    "gua": "guaranteed",
    "ela": "elastic",
    "spo": "spot",
    "pre": "preemptible",
}
Row = tuple[str, int, int, int]  # tenant, rate, burst, floor


def class_states(**changes: Mapping[str, Any]) -> tuple[ClassState, ...]:
    """The five classes; `spot={"longest_wait_ms": 50}` changes one."""
    return tuple(
        ClassState(
            **{
                "service_class": name,
                "action": "none",
                "starter": ONE,
                "longest_wait_ms": 0,
                "on_silence": "refuse" if name in ("spot", "preemptible") else "floor",
                **changes.get(name, {}),
            }
        )
        for name in CLASSES
    )


def decision(at_ms: int = 0, **changes: Any) -> ControlDecision:
    """A decision at own time `at_ms` that lets everything pass."""
    at_ms += EPOCH_MS
    fields: dict[str, Any] = {
        "pool": POOL,
        "at_ms": at_ms,
        "id": f"{POOL}@{at_ms}",
        "spec_version": 1,
        "mode": "enforce",
        "interval_ms": 1000,
        "longest_request_ms": 600_000,
        "tier": "normal",
        "breaker": "closed",
        "breaker_refuses": "borrowers",
        "probe_rate": 0,
        "level": 0,
        "level_now": 0,
        "lent": 0,
        "alpha": 800_000,
        "capacity": 10_000_000,
        "granted": 10_000_000,
        "priority_threshold": "preemptible",
        "parts": 1,
        "token_weights": TokenWeights(ONE, ONE, ONE),
        "classes": class_states(),
        "unknown_class": "spot",
    }
    return ControlDecision(**{**fields, **changes})


def leases(
    gateway: str,
    *rows: Row,
    at_ms: int = 0,
    expires_ms: int = 15_000,
    floor_expires_ms: int = 600_000,
    pot: tuple[int, int] = (0, 0),
    part: int = 0,
    parts: int = 1,
    sequences: int = -1,
    kv_bytes: int = -1,
    pot_sequences: int = -1,
    pot_kv_bytes: int = -1,
    ceilings: Sequence[tuple[str, str, str, int, int, int]] = (),
) -> GatewayLeases:
    """One part of a gateway's leases, given at own time `at_ms`; all times are own times."""
    columns = list(zip(*ceilings, strict=True)) or [()] * 6
    return GatewayLeases(
        pool=POOL,
        gateway=gateway,
        part=part,
        parts=parts,
        at_ms=at_ms + EPOCH_MS,
        expires_ms=expires_ms + EPOCH_MS,
        floor_expires_ms=floor_expires_ms + EPOCH_MS,
        pot_rate=pot[0] * 1000,
        pot_burst=pot[1] * 1000,
        tenant=[row[0] for row in rows],
        rate=[row[1] * 1000 for row in rows],
        burst=[row[2] * 1000 for row in rows],
        floor=[row[3] * 1000 for row in rows],
        sequences=[sequences] * len(rows),
        kv_bytes=[kv_bytes] * len(rows),
        ceiling_tenant=columns[0],
        ceiling_user=columns[1],
        ceiling_window_id=columns[2],
        ceiling_starts_ms=[start + EPOCH_MS for start in columns[3]],
        ceiling_ends_ms=[end + EPOCH_MS for end in columns[4]],
        ceiling_tokens=columns[5],
        pot_sequences=pot_sequences,
        pot_kv_bytes=pot_kv_bytes,
    )


def roster(on_silence: Mapping[str, OnSilence] | None = None, version: int = 1) -> Roster:
    silence = on_silence or {}
    names = sorted(TENANTS)
    return Roster(
        pool=POOL,
        spec_version=version,
        tenant=names,
        service_class=[TENANTS[name] for name in names],
        on_silence=[silence.get(name) for name in names],
    )


def barred(at_ms: int, *rows: tuple[str, str, int]) -> Barred:
    return Barred(
        pool=POOL,
        at_ms=at_ms + EPOCH_MS,
        tenant=[row[0] for row in rows],
        reason=[row[1] for row in rows],  # type: ignore[misc]
        until_ms=[row[2] and row[2] + EPOCH_MS for row in rows],
    )


def obeying(*rows: Row, changes: Mapping[str, Any] | None = None, **leased: Any) -> PoolGate:
    """A gate that obeys these leases from own time 0 on."""
    gate = PoolGate(POOL, "edge")
    gate.acknowledged(EPOCH_MS, 0, 0)
    give(gate, 0, *rows, changes=changes, **leased)
    return gate


def give(
    gate: PoolGate,
    now_ms: int,
    *rows: Row,
    changes: Mapping[str, Any] | None = None,
    heard_ms: int | None = None,
    **leased: Any,
) -> None:
    """A decision at `now_ms`, with leases that live 15 s, heard at once or at `heard_ms`."""
    at_ms, now_ms = now_ms, now_ms if heard_ms is None else heard_ms
    leased = {"expires_ms": now_ms + 15_000, "floor_expires_ms": now_ms + 600_000, **leased}
    if gate.assembly.roster is None:
        gate.hear(roster(), now_ms)
    gate.hear(leases(gate.gateway, *rows, at_ms=at_ms, **leased), now_ms)
    gate.hear(decision(at_ms, **(changes or {})), now_ms)


def ask(
    gate: PoolGate, now_ms: int, tenant: str, estimate: int | None = 1, **fields: Any
) -> Request:
    request = Request(tenant, fields.pop("user", "bo"), estimate, **fields)
    gate.ask(request, now_ms)
    return request


def reason(request: Request) -> str:
    """Why it was refused; its state while it was not."""
    ended = request.status == "refused" and request.denial is not None
    return request.denial.reason if ended and request.denial else request.state


def settle(gate: PoolGate, request: Request, now_ms: int, used: int) -> None:
    ledger.settle(gate, request, now_ms, used, 0, 0)


def admitted(gate: PoolGate, now_ms: int, tenant: str, estimate: int, most: int = 1000) -> int:
    """How many requests in a row are admitted."""
    count = 0
    while count < most and ask(gate, now_ms, tenant, estimate).state == "admitted":
        count += 1
    return count
