"""`tokenweir capacity show`: what a pool can do, and who said so."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from aiokafka import TopicPartition
from aiokafka.structs import ConsumerRecord

from tokenweir import wire
from tokenweir.cli import figures
from tokenweir.cli.heads import has_head
from tokenweir.cli.log import Log, open_log
from tokenweir.cli.pools import Row, read_control
from tokenweir.cli.settings import Settings
from tokenweir.cli.show import Column, note, show_json, show_table
from tokenweir.errors import BadRecord
from tokenweir.records.control import ControlDecision
from tokenweir.records.journal import AuditEntry, JournalEntry
from tokenweir.records.spec import Capacity, PoolSpec
from tokenweir.records.usage import CapacityReport
from tokenweir.spec import words
from tokenweir.topics import Topics, partition_of

SPEAKERS = (CapacityReport, PoolSpec)
LONGEST_SEARCH_S = 10.0  # in each of the two logs
COLUMNS = (
    Column("SOURCE"),
    Column("TOKENS/S", right=True),
    Column("KV", right=True),
    Column("SEQUENCES", right=True),
    Column("SAID", right=True),
)


@dataclass(frozen=True, slots=True)
class Said:
    """What one source said last, and when the broker took it."""

    source: str
    tokens_per_s: int | None
    kv_bytes: int | None
    sequences: int | None
    at_ms: int


@dataclass(frozen=True, slots=True)
class Found:
    """A pool's newest decision, its newest change of capacity, and its sources, newest first."""

    decision: ControlDecision
    change: JournalEntry | None
    sources: tuple[Said, ...]
    back_to_ms: int | None  # how far the log was read, where that was not to the spec in force


def run(settings: Settings, pool: str, output: str) -> None:
    """Print it."""
    found, now_ms = asyncio.run(_read(settings, pool)), int(time.time() * 1000)
    if output == "json":
        show_json(row_of(found))
        return
    print(f"pool {pool}: {in_force(found)}")
    if found.sources:
        print()
        show_table(COLUMNS, [_texts(said, now_ms) for said in found.sources])
    if found.back_to_ms is not None:
        age = figures.age(now_ms - found.back_to_ms)
        note(f"looked through the last {age} of the log; older sources are not shown")


async def _read(settings: Settings, pool: str) -> Found:
    topics = Topics(settings.topic_prefix)
    async with open_log(settings.need_brokers()) as log:
        (decision,) = (await read_control(log, topics, pool)).decisions
        change = await _change(log, await _home(log, topics.journal, pool), pool)
        usage = await _home(log, topics.usage, pool)
        sources, back_to_ms = await _sources(log, usage, decision)
    return Found(decision, change, sources, back_to_ms)


async def _home(log: Log, topic: str, pool: str) -> TopicPartition:
    partitions = await log.partitions(topic)
    return partitions[partition_of(pool, len(partitions))]


async def _change(log: Log, partition: TopicPartition, pool: str) -> JournalEntry | None:
    """The newest audit entry on the pool's capacity."""
    async for record in _newest_first(log, partition):
        # Decisions are by far the most; Avro writes the text as it is.
        if record.value is None or b"capacity" not in record.value:
            continue
        entry = _decoded(record)
        if isinstance(entry, JournalEntry) and entry.pool == pool and _is_change(entry.body):
            return entry
    return None


def _is_change(body: object) -> bool:
    return isinstance(body, AuditEntry) and body.kind == "capacity"


async def _sources(
    log: Log, partition: TopicPartition, decision: ControlDecision
) -> tuple[tuple[Said, ...], int | None]:
    """Back to the spec in force, which stands last, or as far as there is time for."""
    found: dict[str, Said] = {}
    oldest_ms = None
    async for record in _newest_first(log, partition):
        oldest_ms = record.timestamp
        value = _decoded(record) if has_head(record.value, *SPEAKERS) else None
        match value:
            case CapacityReport(pool=decision.pool, source=source):
                found.setdefault(source, _said(source, value, record))
            case PoolSpec(pool=decision.pool, version=decision.spec_version, capacity=can):
                name = f"spec version {value.version}"
                return (*found.values(), _said(name, can, record)), None
    return tuple(found.values()), oldest_ms


def _said(source: str, can: CapacityReport | Capacity, record: ConsumerRecord) -> Said:
    return Said(source, can.tokens_per_s, can.kv_bytes, can.sequences, record.timestamp)


async def _newest_first(log: Log, partition: TopicPartition) -> AsyncIterator[ConsumerRecord]:
    """Records from the log's end backwards, as long as there is time."""
    began_s = time.monotonic()
    end = (await log.ends([partition]))[partition]
    async for window in log.backwards(partition, end):
        for record in reversed(window):
            yield record
        if time.monotonic() - began_s > LONGEST_SEARCH_S:
            return


def _decoded(record: ConsumerRecord) -> Any:
    try:
        return wire.decode(record.value)
    except BadRecord:
        return None


def in_force(found: Found) -> str:
    """The newest change's words where there is one: they name all three resources."""
    now, change = found.decision, found.change
    if change is None or not isinstance(change.body, AuditEntry):
        return f"{words.rate(now.capacity)} at decision {now.id}"
    return f"{change.body.after}, since decision {change.id.split('/')[0]}"


def row_of(found: Found) -> Row:
    """The exact figures."""
    now = found.decision
    return {
        "pool": now.pool,
        "decision": now.id,
        "capacity_milli_tokens_per_s": now.capacity,
        "in_force": in_force(found),
        "sources": [
            {
                "source": said.source,
                "milli_tokens_per_s": said.tokens_per_s,
                "kv_bytes": said.kv_bytes,
                "sequences": said.sequences,
                "at_ms": said.at_ms,
            }
            for said in found.sources
        ],
    }


def _texts(said: Said, now_ms: int) -> list[str]:
    return [
        said.source,
        "-" if said.tokens_per_s is None else figures.rate(said.tokens_per_s),
        "-" if said.kv_bytes is None else figures.size(said.kv_bytes),
        "-" if said.sequences is None else str(said.sequences),
        f"{figures.age(now_ms - said.at_ms)} ago",
    ]
