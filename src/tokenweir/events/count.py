"""From an event to the row that it adds, or to none: each attempt is charged once (T6, R1)."""

from dataclasses import replace
from hashlib import blake2b
from typing import Literal

from tokenweir.events.estimate import Charge, charge
from tokenweir.events.memory import Attempt, Memory
from tokenweir.gateway.rows import Row
from tokenweir.records.event import Event
from tokenweir.records.usage import Status

# taken: it adds a row. repeat: its id, or without one its content, is known. unstable_id: the same
# (tenant, request, attempt, status) again under a new id. late: the attempt has said more already.
Outcome = Literal["taken", "repeat", "unstable_id", "late"]
KINDS: tuple[Status, ...] = ("part", "done", "cancelled", "refused", "expired")
ENDS: tuple[Status, ...] = ("done", "cancelled", "expired")
# Operations that read back what was charged when it was made.
READ_BACK = frozenset({"fetch_response"})
NOTHING = Charge()


def count(memory: Memory, event: Event, at_ms: int, now_ms: int) -> tuple[Outcome, Row | None]:
    """Judge an event that happened at `at_ms`; the memory goes on.

    Rows are increments. The first event that ends the attempt with a usage that is told is the last
    word, and replaces what was counted exactly; until then more replaces less.
    """
    key, id = _attempt_hash(event), _id_hash(event)
    if id is not None and id in memory.known:
        return "repeat", None
    outcome, row = _judged(memory, key, event, at_ms, now_ms)
    if id is not None:
        memory.remember((id,), now_ms)
    elif outcome == "unstable_id":
        outcome = "repeat"
    return outcome, row


def request_key(event: Event) -> bytes:
    """A record's key for an event that came without one: all events of a request have the same."""
    return _joined(event.pool, event.tenant, event.request_id)


def _judged(
    memory: Memory, key: int, event: Event, at_ms: int, now_ms: int
) -> tuple[Outcome, Row | None]:
    if _kind_hash(key, event.status) in memory.known:
        return "unstable_id", None
    if event.status == "refused" or event.operation in READ_BACK:
        memory.remember((_kind_hash(key, event.status),), now_ms)
        return "taken", _row(event, at_ms, event.status, NOTHING, event.wait_ms)
    if any(_kind_hash(key, kind) in memory.known for kind in ENDS):
        return "late", None
    return _more(memory, key, event, at_ms, now_ms)


def _more(
    memory: Memory, key: int, event: Event, at_ms: int, now_ms: int
) -> tuple[Outcome, Row | None]:
    before = memory.open.get(key) or Attempt()
    used = charge(event, before)
    ends = event.status in ENDS and not event.provisional
    final = ends and not used.estimated
    if not final and used.total < before.total:
        used = replace(
            NOTHING,
            uncached=before.uncached,
            cache_write=before.cache_write,
            cached=before.cached,
            out=before.out,
            estimated=used.estimated,
        )
    added = _added(used, before)
    status: Status = event.status if ends and not before.ended else "part"
    same = key in memory.open and not any((added.total, added.uncached, added.out))
    if same and status == "part" and not final:
        again = event.status != "part" and KINDS.index(event.status) == before.kind
        return ("unstable_id" if again else "late"), None
    wait_ms = max(event.wait_ms - before.wait_ms, 0)
    if final:
        memory.drop(key)
        memory.remember((_kind_hash(key, event.status),), now_ms)
    else:
        memory.keep(key, _after(before, event, used, status), now_ms)
    return "taken", _row(event, at_ms, status, added, wait_ms)


def _after(before: Attempt, event: Event, used: Charge, status: Status) -> Attempt:
    return Attempt(
        used.uncached,
        used.cache_write,
        used.cached,
        used.out,
        max(event.wait_ms, before.wait_ms),
        event.tokens_uncached is not None or before.input_told,
        before.ended or status in ENDS,
        KINDS.index(event.status),
    )


def _added(used: Charge, before: Attempt) -> Charge:
    return Charge(
        used.uncached - before.uncached,
        used.cache_write - before.cache_write,
        used.cached - before.cached,
        used.out - before.out,
        used.estimated,
    )


def _row(event: Event, at_ms: int, status: Status, added: Charge, wait_ms: int) -> Row:
    return (
        event.request_id,
        event.attempt,
        event.tenant,
        event.user,
        event.model,
        event.operation,
        event.provider_tier,
        event.reason,
        status,
        event.flow,
        event.priority,
        added.uncached,
        added.cache_write,
        added.cached,
        added.out,
        event.refused_tokens if status == "refused" else 0,
        added.estimated,
        event.error,
        event.kv_bytes,
        wait_ms,
        event.duration_ms,
        at_ms,
        event.decision,
    )


def _attempt_hash(event: Event) -> int:
    read_back = event.operation in READ_BACK
    return _hash(event.pool, event.tenant, event.request_id, str(event.attempt), str(read_back))


def _id_hash(event: Event) -> int | None:
    return _hash("id", event.pool, event.tenant, event.id) if event.id else None


def _kind_hash(key: int, status: Status) -> int:
    """The hash of an attempt's event of this status: the attempt's with some bits turned."""
    return key ^ (KINDS.index(status) + 1) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF


def _hash(*names: str) -> int:
    return int.from_bytes(blake2b(_joined(*names), digest_size=8).digest(), "little")


def _joined(*names: str) -> bytes:
    return "\x00".join(f"{len(name)}:{name}" for name in names).encode()
