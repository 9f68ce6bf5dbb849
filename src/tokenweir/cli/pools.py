"""What the topics say of the pools now: decisions, leases, rosters, and the figures behind them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from aiokafka import TopicPartition
from aiokafka.structs import ConsumerRecord

from tokenweir import wire
from tokenweir.cli.log import Log
from tokenweir.errors import BadInput, BadRecord
from tokenweir.records.control import ControlDecision, GatewayLeases, Roster
from tokenweir.records.journal import DecisionEntry, JournalEntry
from tokenweir.topics import Topics, partition_of

Row = dict[str, Any]  # one row of output; the keys of numbers say their units


@dataclass(frozen=True, slots=True)
class Control:
    """The control topic's newest records, in the order of their pools' names."""

    decisions: tuple[ControlDecision, ...]
    leases: tuple[GatewayLeases, ...]
    rosters: dict[str, Roster]


async def read_control(log: Log, topics: Topics, pool: str | None = None) -> Control:
    """What gateways obey now, of all pools or of one; `BadInput` for a pool that has nothing."""
    newest = {record.key: record async for record in log.whole(topics.control)}
    found = [record for record in map(_decoded, newest.values()) if record is not None]
    here = [record for record in found if pool in (None, record.pool)]
    decisions = [record for record in here if isinstance(record, ControlDecision)]
    leases = [record for record in here if isinstance(record, GatewayLeases)]
    if pool is not None and not decisions:
        known = sorted(record.pool for record in found if isinstance(record, ControlDecision))
        raise BadInput(f"--pool {pool}: no decision yet; pools with one: {_list(known)}")
    return Control(
        decisions=tuple(sorted(decisions, key=lambda record: record.pool)),
        leases=tuple(sorted(leases, key=lambda part: (part.pool, part.gateway, part.part))),
        rosters={record.pool: record for record in here if isinstance(record, Roster)},
    )


async def read_figures(log: Log, topics: Topics, control: Control) -> list[DecisionEntry]:
    """The newest decision of each pool with the figures that it was taken on."""
    partitions = await log.partitions(topics.journal)
    missing: dict[TopicPartition, set[str]] = {}
    for decision in control.decisions:
        number = partition_of(decision.pool, len(partitions))
        missing.setdefault(partitions[number], set()).add(decision.pool)
    found: dict[str, DecisionEntry] = {}
    ends = await log.ends(list(missing))
    for partition, pools in missing.items():
        async for window in log.backwards(partition, ends[partition]):
            for entry in decision_entries(window):
                pool = entry.decision.pool
                if pool in pools and entry.decision.at_ms >= _at(found.get(pool)):
                    found[pool] = entry
            if pools <= found.keys():
                break
    return [found[pool] for pool in sorted(found)]


def decision_entries(records: list[ConsumerRecord]) -> Iterator[DecisionEntry]:
    """The decisions among records of the journal."""
    for record in records:
        entry = _decoded(record)
        if isinstance(entry, JournalEntry) and isinstance(entry.body, DecisionEntry):
            yield entry.body


def _decoded(record: ConsumerRecord) -> Any:
    """The record's value; None for a tombstone, and for what this version cannot read."""
    try:
        return None if record.value is None else wire.decode(record.value)
    except BadRecord:
        return None


def _at(entry: DecisionEntry | None) -> int:
    return -1 if entry is None else entry.decision.at_ms


def _list(names: list[str]) -> str:
    return ", ".join(names) or "none"
