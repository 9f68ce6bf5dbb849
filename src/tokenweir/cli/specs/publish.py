"""Publish specs, and see what becomes of them."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Literal

from aiokafka import TopicPartition

from tokenweir import wire
from tokenweir.cli.log import Log
from tokenweir.cli.send import open_sender
from tokenweir.cli.specs.plan import Plan, specs_of
from tokenweir.errors import BadInput, BadRecord
from tokenweir.records.control import ControlDecision
from tokenweir.records.journal import AuditEntry, JournalEntry
from tokenweir.spec.current import current
from tokenweir.topics import Topics, partition_of, pool_key

State = Literal["accepted", "rejected", "waiting"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one published spec; `waiting`: nothing was heard of it yet."""

    state: State
    why: str


Outcomes = dict[str, Outcome]  # by pool


async def publish(
    brokers: str, log: Log, topics: Topics, plans: Sequence[Plan], wait_s: float
) -> Outcomes:
    """Write each plan's spec into its pool's log, then wait until each was heard of."""
    starts = await _answers_from(log, topics, plans)
    offsets = await _send(brokers, plans)
    outcomes: Outcomes = {}
    for plan in plans:
        if await _overtaken(log, plan, offsets[plan.spec.pool]):
            why = "somebody else applied a spec at the same moment: look at it, and apply again"
            outcomes[plan.spec.pool] = Outcome("rejected", why)
    wanted = {p.spec.pool: p.spec.version for p in plans if p.spec.pool not in outcomes}
    if wanted and wait_s > 0:
        outcomes |= await _wait(log, starts, wanted, wait_s)
    return {pool: Outcome("waiting", "") for pool in wanted} | outcomes


async def _answers_from(
    log: Log, topics: Topics, plans: Sequence[Plan]
) -> Mapping[TopicPartition, int]:
    """Where decisions and audits on these pools will be written next."""
    control, journal = await log.partitions(topics.control), await log.partitions(topics.journal)
    numbers = {partition_of(plan.spec.pool, len(control)) for plan in plans}
    return await log.ends([part for part in (*control, *journal) if part.partition in numbers])


async def _send(brokers: str, plans: Sequence[Plan]) -> dict[str, int]:
    """The offset of each pool's spec."""
    offsets = {}
    async with open_sender(brokers) as sender:
        for plan in plans:
            key, value = pool_key(plan.spec.pool), wire.encode(plan.spec)
            try:
                offsets[plan.spec.pool] = (await sender.send(plan.partition, key, value)).offset
            except BadInput as error:
                raise BadInput(f"{plan.source.name}: {error}") from error
    return offsets


async def _overtaken(log: Log, plan: Plan, offset: int) -> bool:
    """Whether a spec that came between reading and writing was accepted before ours (T4)."""
    since = [record async for record in log.between(plan.partition, plan.current.end, offset)]
    version = plan.current.version
    between = current(specs_of(since, plan.spec.pool), version)
    return between is not None and between.version != version


async def _wait(
    log: Log, starts: Mapping[TopicPartition, int], wanted: Mapping[str, int], wait_s: float
) -> Outcomes:
    heard: Outcomes = {}
    try:
        async with asyncio.timeout(wait_s), aclosing(log.follow(starts)) as records:
            async for record in records:
                heard |= _heard(record.value, wanted)
                if wanted.keys() <= heard.keys():
                    return heard
    except TimeoutError:
        pass
    return heard


def _heard(value: bytes | None, wanted: Mapping[str, int]) -> Outcomes:
    """What a record of the control topic or the journal says of the specs that are waited for."""
    try:
        record = wire.decode(value)
    except BadRecord:
        return {}
    if isinstance(record, ControlDecision) and record.spec_version == wanted.get(record.pool):
        return {record.pool: Outcome("accepted", f"in force since decision {record.id}")}
    if isinstance(record, JournalEntry) and isinstance(record.body, AuditEntry):
        audit, version = record.body, wanted.get(record.pool)
        if audit.kind == "spec_rejected" and audit.after == str(version):
            return {record.pool: Outcome("rejected", audit.why)}
    return {}
