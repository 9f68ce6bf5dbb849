"""Control records become what the gateway obeys (PROTOCOL L5–L9)."""

from typing import TYPE_CHECKING, TypeAlias

from tokenweir.errors import BadRecord
from tokenweir.gateway.ceilings import EVERYBODY, Ceiling, Meter, ceilings
from tokenweir.gateway.quotas import windows_of
from tokenweir.gateway.stance import stances
from tokenweir.gateway.subject import Subject
from tokenweir.gateway.suspend import stop
from tokenweir.records.control import Barred, ControlDecision, GatewayLeases, Roster
from tokenweir.records.spec import RANK

if TYPE_CHECKING:
    from tokenweir.gateway.pool import PoolGate

MINUTE_MS = 60_000  # windows end with whole minutes, and their meters are dropped then
ControlRecord: TypeAlias = ControlDecision | GatewayLeases | Barred | Roster


def hear(gate: "PoolGate", record: ControlRecord, now_ms: int) -> None:
    """Take one control record: late, repeated and lost ones are allowed.

    Raises `BadRecord`, with nothing changed, for a record whose columns do not fit together.
    """
    check(record)
    assembly = gate.assembly
    match record:
        case ControlDecision():
            if assembly.decide(record):
                _decide(gate, record, now_ms)
        case GatewayLeases():
            assembly.lease(record)
        case Roster():
            if assembly.enrol(record):
                _enrol(gate, record)
        case Barred():
            if assembly.bar(record):
                _bar(gate, record, now_ms)
    obey(gate, now_ms)


def check(record: ControlRecord) -> None:
    """Raise `BadRecord` for columns of different lengths."""
    match record:
        case GatewayLeases():
            leases = (record.rate, record.burst, record.floor, record.sequences, record.kv_bytes)
            _same_length("tenant", record.tenant, *leases)
            _same_length(
                "ceiling_tenant",
                record.ceiling_tenant,
                record.ceiling_user,
                record.ceiling_window_id,
                record.ceiling_starts_ms,
                record.ceiling_ends_ms,
                record.ceiling_tokens,
            )
        case Roster():
            _same_length("tenant", record.tenant, record.service_class, record.on_silence)
            if record.raise_limit:
                _same_length("tenant", record.tenant, record.raise_limit)
            _same_length("user", record.user, record.user_tenant, record.user_weight)
            if (least := min(record.user_weight, default=1)) < 1:
                raise BadRecord(f"user_weight has {least}; allowed is 1 or more")
        case Barred():
            _same_length("tenant", record.tenant, record.reason, record.until_ms)


def obey(gate: "PoolGate", now_ms: int) -> None:
    """Obey the newest decision if it is whole and pool time is known (L6, L9)."""
    gate.tick_ms = -1  # what it was is looked up again
    pool_ms = gate.clock.at(now_ms)
    if pool_ms is None:
        return
    if pool_ms >= gate.leases.turns_ms:
        gate.leases.turn(now_ms, pool_ms)
    parts = gate.assembly.whole()
    if parts is None or parts[0].at_ms <= gate.leases.at_ms:
        return
    before_ms = gate.leases.at_ms
    gate.leases.obey(parts, gate.meet, now_ms, pool_ms)
    if parts[0].at_ms // MINUTE_MS > before_ms // MINUTE_MS:
        gate.meters = {key: meter for key, meter in gate.meters.items() if meter.lasts(pool_ms)}
    _limit(gate, ceilings(parts), pool_ms)
    _probe(gate, now_ms)
    gate.wake(now_ms)


def meet(gate: "PoolGate", name: str) -> Subject:
    """The tenant of this name; all names that the roster does not know are one (L8)."""
    subject = gate.subjects.get(name)
    if subject is not None:
        return subject
    known = gate.roster.get(name)
    if known is None:
        return gate.stranger
    subject = gate.subjects[name] = Subject(name, known[0], known[1])
    subject.barred, subject.barred_until_ms = gate.barred.get(name, (None, 0))
    return subject


def _decide(gate: "PoolGate", decision: ControlDecision, now_ms: int) -> None:
    gate.clock.decided(decision.at_ms)
    pool_ms = gate.clock.at(now_ms)
    if pool_ms is not None and pool_ms >= gate.leases.turns_ms:
        gate.leases.turn(now_ms, pool_ms)
    weights = decision.token_weights
    gate.weights = (weights.uncached, weights.cached, weights.out)
    gate.stances = stances(decision)
    gate.stranger.rank = RANK[decision.unknown_class]
    gate.interval_ms = decision.interval_ms
    gate.longest_request_ms = decision.longest_request_ms
    gate.decision_ms = decision.at_ms
    gate.shadow = decision.mode == "shadow"
    gate.leases.retune(gate.stances, decision.interval_ms, now_ms)
    _probe(gate, now_ms)
    gate.wake(now_ms)


def _enrol(gate: "PoolGate", roster: Roster) -> None:
    columns = zip(roster.tenant, roster.service_class, roster.on_silence, strict=True)
    gate.roster = {name: (RANK[of], on_silence) for name, of, on_silence in columns}
    gate.raise_limit = dict(zip(roster.tenant, roster.raise_limit, strict=False))
    gate.user_weights.clear()  # the lines read this very dict
    keys = zip(roster.user_tenant, roster.user, strict=True)
    gate.user_weights.update(zip(keys, roster.user_weight, strict=True))
    gate.lines.reweigh()
    gate.departed = []
    for name, subject in tuple(gate.subjects.items()):
        known = gate.roster.get(name)
        if known is not None:
            subject.rank, subject.on_silence = known
        elif subject.idle:
            del gate.subjects[name]
        else:
            gate.departed.append(subject)


def _bar(gate: "PoolGate", barred: Barred, now_ms: int) -> None:
    before = {name for name, (reason, _) in gate.barred.items() if reason == "revoked"}
    rows = zip(barred.tenant, barred.reason, barred.until_ms, strict=True)
    gate.barred = {name: (reason, until_ms) for name, reason, until_ms in rows}
    for name, subject in gate.subjects.items():
        subject.barred, subject.barred_until_ms = gate.barred.get(name, (None, 0))
    stop(gate, before)
    gate.wake(now_ms)


def _limit(gate: "PoolGate", found: dict[tuple[str, str], list[Ceiling]], pool_ms: int) -> None:
    """Obey exactly these ceilings; what was spent in a window that lasts is remembered."""
    before = {*gate.limited}
    for subject in gate.limited:
        subject.meter = subject.user_meters = subject.everybody = None
    gate.limited = []
    for (tenant, user), rows in found.items():
        subject = meet(gate, tenant)
        if subject is gate.stranger:
            continue
        gate.limited.append(subject)
        subject.limited = True
        if not user:
            subject.meter = _meter(gate, subject, user, rows, pool_ms)
            continue
        if subject.user_meters is None:
            subject.user_meters = {}
        if user == EVERYBODY:
            subject.everybody = rows
        else:
            subject.user_meters[user] = _meter(gate, subject, user, rows, pool_ms)
    fresh = {*gate.limited} - before
    if fresh:
        _adopt(gate, fresh, pool_ms)


def _meter(
    gate: "PoolGate", subject: Subject, user: str, rows: list[Ceiling], pool_ms: int
) -> Meter:
    meter = gate.meters.get((subject.name, user))
    if meter is None:
        meter = gate.meters[subject.name, user] = Meter()
    meter.own = True
    meter.set(rows, pool_ms)
    return meter


def _adopt(gate: "PoolGate", subjects: set[Subject], pool_ms: int) -> None:
    """What runs since before there was a ceiling counts too.

    What had ended by then is known from reports, and left out of the ceiling.
    """
    for request in gate.holds:
        if request.subject in subjects and not request.windows:
            request.windows = windows_of(gate, request.subject, request.user, pool_ms)
            for window in request.windows:
                window.spent += request.held // 1000


def _probe(gate: "PoolGate", now_ms: int) -> None:
    """Half open: this gateway's share of the probe rate, by its share of what is granted."""
    decision = gate.assembly.decision
    if decision is None or decision.breaker != "half_open":
        if gate.probe.rate:
            gate.probe.restart(now_ms, 0, 0)
        return
    leased = gate.leases.rates - gate.leases.pot_rate  # pots are no part of what is granted
    share = decision.probe_rate * leased // max(decision.granted, 1)
    rate = min(share, decision.probe_rate)
    change = gate.probe.renew if gate.probe.rate else gate.probe.restart
    change(now_ms, rate, rate * decision.interval_ms // 1000)


def _same_length(name: str, first: object, *others: object) -> None:
    lengths = [len(column) for column in (first, *others)]  # type: ignore[arg-type]
    if len(set(lengths)) > 1:
        raise BadRecord(f"columns beside {name} differ in length: {lengths}")
