"""What an apply would change: the pool's current spec, found in the log, beside the new one."""

import time
from collections.abc import Iterable
from dataclasses import dataclass

from aiokafka import TopicPartition
from aiokafka.structs import ConsumerRecord

from tokenweir import wire
from tokenweir.cli.heads import has_head
from tokenweir.cli.log import Log
from tokenweir.cli.show import note
from tokenweir.errors import BadRecord
from tokenweir.records.control import ControlDecision
from tokenweir.records.spec import PoolSpec
from tokenweir.spec.compile import compile_spec
from tokenweir.spec.current import current
from tokenweir.spec.difference import Change, difference
from tokenweir.spec.model import Pool
from tokenweir.topics import Topics, partition_of, pool_key

LONGEST_SEARCH_S = 20.0  # for the text of a spec whose version is known


@dataclass(frozen=True, slots=True)
class Source:
    """A file that was read and found good."""

    name: str
    text: str
    pool: Pool


@dataclass(frozen=True, slots=True)
class Current:
    """What is in force for a pool: version 0 is nothing yet; the spec may be known no more."""

    version: int
    spec: PoolSpec | None
    end: int  # the log was read up to here


@dataclass(frozen=True, slots=True)
class Plan:
    """One pool's next spec and what changes with it; None where that cannot be known."""

    source: Source
    partition: TopicPartition
    current: Current
    spec: PoolSpec
    changes: tuple[Change, ...] | None

    @property
    def is_new(self) -> bool:
        """Whether the pool has no spec yet."""
        return self.current.version == 0


async def plan(log: Log, topics: Topics, source: Source) -> Plan:
    """Compile the source against what is in force."""
    pool = source.pool.pool
    partitions = await log.partitions(topics.usage)
    partition = partitions[partition_of(pool, len(partitions))]
    now = await _current(log, topics, partition, pool)
    spec = compile_spec(source.pool, now.version + 1, now.version, source.text)
    return Plan(source, partition, now, spec, changes(source.pool, now, spec))


def changes(pool: Pool, now: Current, spec: PoolSpec) -> tuple[Change, ...] | None:
    """What differs; for a new pool, from the defaults."""
    if now.version == 0:
        bare = {"pool": pool.pool, "capacity": {"tokens_per_s": "0.001"}}
        return difference(compile_spec(Pool.model_validate(bare), 0, 0), spec)
    return None if now.spec is None else difference(now.spec, spec)


async def _current(log: Log, topics: Topics, partition: TopicPartition, pool: str) -> Current:
    """Search the log backwards; a decision says which version to look for (T4)."""
    known = await _decided(log, topics, pool)
    end = (await log.ends([partition]))[partition]
    began_s, said = time.monotonic(), False
    specs: list[PoolSpec] = []
    async for window in log.backwards(partition, end):
        specs = [*specs_of(window, pool), *specs]
        if known is not None and any(spec.version == known for spec in specs):
            break
        took_s = time.monotonic() - began_s
        if known is not None and took_s > LONGEST_SEARCH_S:
            break
        if took_s > 2 and not said:
            said = True
            note(f"looking for the current spec of pool {pool} in the log")
    found = current(specs, known)
    return Current(found.version if found else known or 0, found, end)


async def _decided(log: Log, topics: Topics, pool: str) -> int | None:
    """The version that the pool's newest decision names."""
    partitions = await log.partitions(topics.control)
    partition = partitions[partition_of(pool, len(partitions))]
    start, end = (
        (await log.starts([partition]))[partition],
        (await log.ends([partition]))[partition],
    )
    version = None
    async for record in log.between(partition, start, end):
        if record.key == pool_key(pool) and record.value is not None:
            version = wire.decode_as(ControlDecision, record.value).spec_version
    return version


def specs_of(records: Iterable[ConsumerRecord], pool: str) -> list[PoolSpec]:
    """The specs of one pool among records of the usage topic."""
    # Reports are by far the most; their heads are enough to pass them over.
    values = (record.value for record in records if has_head(record.value, PoolSpec))
    specs = (_spec(value) for value in values)
    return [spec for spec in specs if spec is not None and spec.pool == pool]


def _spec(value: bytes) -> PoolSpec | None:
    try:
        return wire.decode_as(PoolSpec, value)
    except BadRecord:
        return None
