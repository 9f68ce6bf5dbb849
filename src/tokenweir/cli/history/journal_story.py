"""The story of a decision as the journal in Kafka has it."""

from collections.abc import Iterable
from datetime import timedelta

from aiokafka.structs import ConsumerRecord

from tokenweir import wire
from tokenweir.cli.history.story import Story
from tokenweir.cli.log import open_log
from tokenweir.cli.settings import Settings
from tokenweir.errors import BadInput, BadRecord
from tokenweir.history.answers import Change, Figures
from tokenweir.history.explain import GatewayTold, Told
from tokenweir.history.instants import instant_of
from tokenweir.records.journal import AuditEntry, DecisionEntry, JournalEntry, TenantFigures
from tokenweir.topics import Topics, partition_of


async def read_journal(settings: Settings, pool: str, at_ms: int, around: timedelta) -> Story:
    """Raises `BadInput` when the journal has no such decision, or has it no more."""
    topic = Topics(settings.topic_prefix).journal
    around_ms = around // timedelta(milliseconds=1)
    entries: dict[str, JournalEntry] = {}
    async with open_log(settings.need_brokers()) as log:
        partitions = await log.partitions(topic)
        partition = partitions[partition_of(pool, len(partitions))]
        end = (await log.ends([partition]))[partition]
        async for window in log.backwards(partition, end):
            found = {entry.id: entry for entry in _entries(window, pool)}
            entries |= found
            if any(entry.at_ms < at_ms - around_ms for entry in found.values()):
                break
    near = sorted(entries.values(), key=lambda entry: (entry.at_ms, entry.id))
    return told(pool, at_ms, [e for e in near if abs(e.at_ms - at_ms) <= around_ms])


def told(pool: str, at_ms: int, entries: Iterable[JournalEntry]) -> Story:
    """The story in the entries around a decision, oldest first."""
    entries = tuple(entries)
    taken = [entry.body for entry in entries if isinstance(entry.body, DecisionEntry)]
    until = [body for body in taken if body.decision.at_ms <= at_ms]
    if not until or until[-1].decision.at_ms != at_ms:
        nearby = f"; the one before it is {until[-1].decision.id}" if until else ""
        raise BadInput(f"the journal has no decision {pool}@{at_ms}{nearby}")
    now, before = until[-1], until[-2] if len(until) > 1 else None
    return Story(
        pool=pool,
        decision=_decision(now),
        before=_decision(before) if before else None,
        tenants=_figures(now.tenants),
        tenants_before=_figures(before.tenants) if before else (),
        gateways=_gateways(now),
        changes=[
            _change(entry, entry.body) for entry in entries if isinstance(entry.body, AuditEntry)
        ],
        ends=None,
    )


def _entries(records: Iterable[ConsumerRecord], pool: str) -> Iterable[JournalEntry]:
    for record in records:
        try:
            entry = wire.decode(record.value) if record.key == pool.encode() else None
        except BadRecord:
            continue  # the history tells of it
        if isinstance(entry, JournalEntry):
            yield entry


def _decision(entry: DecisionEntry) -> Told:
    now = entry.decision
    return Told(
        at=instant_of(now.at_ms),
        id=now.id,
        spec_version=now.spec_version,
        mode=now.mode,
        tier=now.tier,
        breaker=now.breaker,
        breaker_refuses=now.breaker_refuses,
        probe_rate=now.probe_rate,
        interval_ms=now.interval_ms,
        level=now.level,
        level_now=now.level_now,
        lent=now.lent,
        alpha=now.alpha,
        capacity=now.capacity,
        granted=now.granted,
        used=entry.used,
        budget=entry.budget,
        priority_threshold=now.priority_threshold,
        class_names=[state.service_class for state in now.classes],
        class_actions=[state.action for state in now.classes],
    )


def _figures(of: TenantFigures) -> list[Figures]:
    names = Figures.__dataclass_fields__
    return [Figures(**{n: getattr(of, n)[at] for n in names}) for at in range(len(of.tenant))]


def _gateways(entry: DecisionEntry) -> list[GatewayTold]:
    of = entry.gateways
    columns = zip(
        of.gateway, of.sequence, of.applied, of.seen_ms, of.leased, of.missing, strict=True
    )
    return [
        GatewayTold(name, sequence, instant_of(applied), instant_of(seen), leased, missing)
        for name, sequence, applied, seen, leased, missing in columns
    ]


def _change(entry: JournalEntry, body: AuditEntry) -> Change:
    values = {name: getattr(body, name) for name in AuditEntry.__dataclass_fields__}
    return Change(at=instant_of(entry.at_ms), **values)
