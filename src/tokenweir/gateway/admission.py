"""May this request go now? The order of DESIGN §5, and the charge, in one step without a pause.

State of the entitlement, priority threshold and class, sequences and KV bytes, quota ceiling,
lease or starter pot.
"""

from typing import TYPE_CHECKING

from tokenweir.gateway.bucket import Bucket
from tokenweir.gateway.pot import allowance
from tokenweir.gateway.quotas import over_quota, windows_of
from tokenweir.gateway.reasons import Denial, Reason
from tokenweir.gateway.request import Request
from tokenweir.gateway.stance import CORE, Stance
from tokenweir.gateway.subject import Subject

if TYPE_CHECKING:
    from tokenweir.gateway.pool import PoolGate

RESUME_MS = 60_000  # pool time after which revoked work may go on, unless the record says when
MOST_ROWS = 5_000  # rows after which a report is due at once
START_MS = 1000  # what to wait before the first decision is known


def admit(gate: "PoolGate", request: Request, now_ms: int, free: bool = False) -> Denial | None:
    """Admit and charge, or say why not; nothing is charged then.

    `free`: nothing is asked and no bucket is charged; it is only counted. One function and no
    more calls than it needs: each is a hundredth of what an admission takes.
    """
    if now_ms != gate.tick_ms:
        _tick(gate, now_ms)
    pool_ms = gate.pool_ms
    subject = request.subject
    if not free:
        if pool_ms is None:
            return Denial("no_decision", START_MS, subject.rank >= CORE)
        stance = gate.stances[subject.rank]
        asks = stance.closed is not None or subject.barred is not None or subject.limited
        if asks and (denial := _against(gate, request, subject, stance, pool_ms)) is not None:
            return denial
        bucket = subject.bucket
        if subject.leased and bucket.take(request.cost, now_ms):
            request.bucket, request.epoch = bucket, bucket.epoch
        elif (denial := _otherwise(gate, request, subject, stance, now_ms, pool_ms)) is not None:
            return denial
    cost = request.held = request.cost
    if subject.limited:
        request.windows = windows_of(gate, subject, request.user, pool_ms or 0)
        for window in request.windows:
            window.spent += cost // 1000
    if not subject.admitted:
        subject.first_ms = pool_ms or 0
    subject.admitted += 1
    subject.charged += cost
    subject.in_flight += 1
    subject.sequences += request.sequences
    subject.kv_bytes += request.kv_bytes
    request.state = "admitted"
    request.started_ms = now_ms
    request.decision_ms = gate.decision_ms
    gate.holds[request] = None
    return None


def _tick(gate: "PoolGate", now_ms: int) -> None:
    """What the requests of one ms have in common: the pool's time, and the leases' phase."""
    gate.tick_ms, gate.pool_ms = now_ms, gate.clock.at(now_ms)
    if len(gate.rows) >= MOST_ROWS:
        gate.hurry = True
    if gate.pool_ms is not None and gate.pool_ms >= gate.leases.turns_ms:
        gate.leases.turn(now_ms, gate.pool_ms)


def _against(
    gate: "PoolGate", request: Request, subject: Subject, stance: Stance, pool_ms: int
) -> Denial | None:
    """What is in its way before its tokens are: state, class, sequences and KV bytes, quota."""
    denial = None
    if stance.closed is not None or subject.barred is not None:
        denial = _closed(gate, subject, stance, pool_ms)
    if denial is None and subject.limited:
        denial = _crowded(gate, request, subject) or over_quota(gate, request, subject, pool_ms)
    return denial


def _charge(
    gate: "PoolGate", request: Request, bucket: Bucket, pot_share: Bucket | None, now_ms: int
) -> None:
    """Spend its estimate from a bucket that is above 0, and from the tenant's share of the pot."""
    cost = request.cost
    bucket.level -= cost
    bucket.claim(cost, now_ms)
    request.bucket, request.epoch = bucket, bucket.epoch
    if pot_share is not None:
        pot_share.level -= cost
        pot_share.claim(cost, now_ms)
        request.pot_share, request.pot_epoch = pot_share, pot_share.epoch
        gate.pot_sequences += request.sequences
        gate.pot_kv_bytes += request.kv_bytes


def _closed(gate: "PoolGate", subject: Subject, stance: Stance, pool_ms: int) -> Denial | None:
    if subject.barred in ("suspended", "revoked") and _is_barred(subject, pool_ms):
        return Denial(subject.barred, _until(subject, pool_ms), False)
    if stance.closed is not None:
        return Denial(stance.closed, gate.interval_ms, stance.closed == "no_decision")
    return None


def _is_barred(subject: Subject, pool_ms: int) -> bool:
    return subject.barred is not None and not 0 < subject.barred_until_ms <= pool_ms


def _until(subject: Subject, pool_ms: int) -> int | None:
    if subject.barred_until_ms:
        return subject.barred_until_ms - pool_ms
    return RESUME_MS if subject.barred == "revoked" else None


def _crowded(gate: "PoolGate", request: Request, subject: Subject) -> Denial | None:
    if not subject.leased:
        return None
    # Who has left the roster is one of the unknown: what it still runs is part of their limit.
    together = [subject, *gate.departed] if subject is gate.stranger else [subject]
    free = subject.sequence_limit - sum(each.sequences for each in together)
    if subject.sequence_limit >= 0 and request.sequences > free:
        return Denial("sequences", None, True, max(free, 0))
    free = subject.kv_limit - sum(each.kv_bytes for each in together)
    if subject.kv_limit >= 0 and request.kv_bytes > free:
        return Denial("kv_bytes", None, True, max(free, 0))
    return None


def _crowded_pot(gate: "PoolGate", request: Request) -> Denial | None:
    leases = gate.leases
    free = leases.pot_sequence_limit - gate.pot_sequences
    if leases.pot_sequence_limit >= 0 and request.sequences > free:
        return Denial("sequences", None, True, max(free, 0))
    free = leases.pot_kv_limit - gate.pot_kv_bytes
    if leases.pot_kv_limit >= 0 and request.kv_bytes > free:
        return Denial("kv_bytes", None, True, max(free, 0))
    return None


def _otherwise(
    gate: "PoolGate",
    request: Request,
    subject: Subject,
    stance: Stance,
    now_ms: int,
    pool_ms: int,
) -> Denial | None:
    """Not from a lease: freely in silence, from the probe budget, or from the starter pot."""
    leases = gate.leases
    if leases.phase in ("floor", "ended") and _on_silence(subject, stance) == "allow":
        return None
    if stance.probe:
        gate.probe.refill(now_ms)
        if gate.probe.level > 0:
            _charge(gate, request, gate.probe, None, now_ms)
            return None
    if subject.leased:
        return _used_up(gate, subject, stance)
    return _from_pot(gate, request, subject, stance, now_ms, pool_ms)


def _on_silence(subject: Subject, stance: Stance) -> str:
    return subject.on_silence or stance.on_silence


def _used_up(gate: "PoolGate", subject: Subject, stance: Stance) -> Denial:
    reason: Reason = stance.narrowed or "tokens"
    if gate.leases.phase != "lease":
        reason = "silent"
    waits = [subject.bucket.ready_ms(), gate.probe.ready_ms() if stance.probe else None]
    return Denial(reason, min((wait for wait in waits if wait is not None), default=None), True)


def _from_pot(
    gate: "PoolGate",
    request: Request,
    subject: Subject,
    stance: Stance,
    now_ms: int,
    pool_ms: int,
) -> Denial | None:
    if _is_barred(subject, pool_ms):
        assert subject.barred is not None
        until = _until(subject, pool_ms)
        if subject.barred == "quota" and until is not None:  # spent: an interval more (Q3)
            return Denial("quota", until + gate.interval_ms, False)
        return Denial(subject.barred, until, True)
    leases = gate.leases
    if len(gate.lines.pot) and request.state == "new":
        return Denial("pot", leases.pot.ready_ms(), True)  # others wait for it
    if not stance.pot or stance.flow == "none" or leases.pot_rate == 0:
        silent = leases.phase in ("floor", "ended")
        return Denial("silent" if silent else stance.narrowed or "no_lease", None, True)
    if leases.pot_sequence_limit >= 0 or leases.pot_kv_limit >= 0:
        denial = _crowded_pot(gate, request)
        if denial is not None:
            return denial
    pot, share = leases.pot, allowance(leases.pot, subject, stance, now_ms)
    pot.refill(now_ms)
    if pot.level > 0 and share.level > 0:
        _charge(gate, request, pot, share, now_ms)
        return None
    waits = (pot.ready_ms(), share.ready_ms())
    known = tuple(wait for wait in waits if wait is not None)
    return Denial("pot", max(known) if len(known) == 2 else None, True)
