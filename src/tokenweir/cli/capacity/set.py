"""`tokenweir capacity set`: say what a pool can do, and see which decision takes it up."""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass

from aiokafka import TopicPartition

from tokenweir import wire
from tokenweir.cli.capacity.given import read_option
from tokenweir.cli.log import Log, open_log
from tokenweir.cli.pools import Row, read_control
from tokenweir.cli.send import open_sender
from tokenweir.cli.settings import Settings
from tokenweir.cli.show import note, show_json
from tokenweir.errors import BadInput, BadRecord
from tokenweir.records.control import ControlDecision
from tokenweir.records.usage import CapacityReport
from tokenweir.spec import words
from tokenweir.spec.quantity import BYTES, RATE, count
from tokenweir.topics import Topics, partition_of, pool_key

SOURCE = "cli"
UNCONFIRMED = 3  # exit code: published, and nothing heard of it in time
SEQUENCES = count(10**9)


@dataclass(frozen=True, slots=True)
class Published:
    """What was sent, where the pool stood before, and the first decision that knows it."""

    before: ControlDecision
    report: CapacityReport
    decision: ControlDecision | None


def run(
    settings: Settings,
    pool: str,
    tokens_per_s: str | None,
    kv_bytes: str | None,
    sequences: str | None,
    wait_s: float,
    output: str,
) -> int:
    """Publish it and wait for its decision; the exit code."""
    report = read_report(pool, tokens_per_s, kv_bytes, sequences)
    published = asyncio.run(_publish(settings, report, wait_s))
    if output == "json":
        show_json(row_of(published))
    else:
        _say(published)
    return 0 if published.decision is not None else UNCONFIRMED


def read_report(
    pool: str, tokens_per_s: str | None, kv_bytes: str | None, sequences: str | None
) -> CapacityReport:
    """The report that the options say; raises `BadInput`."""
    report = CapacityReport(
        pool,
        SOURCE,
        read_option("--tokens-per-s", RATE, tokens_per_s),
        read_option("--kv-bytes", BYTES, kv_bytes),
        read_option("--sequences", SEQUENCES, sequences),
    )
    if (report.tokens_per_s, report.kv_bytes, report.sequences) == (None, None, None):
        raise BadInput("nothing to set: give --tokens-per-s, --kv-bytes or --sequences")
    return report


async def _publish(settings: Settings, report: CapacityReport, wait_s: float) -> Published:
    brokers, topics = settings.need_brokers(), Topics(settings.topic_prefix)
    async with open_log(brokers) as log:
        # A pool that nobody decides on is most likely a slip of the pen.
        (before,) = (await read_control(log, topics, report.pool)).decisions
        partitions = await log.partitions(topics.usage)
        home = partitions[partition_of(report.pool, len(partitions))]
        answers = (await log.partitions(topics.control))[home.partition]
        start = (await log.ends([answers]))[answers]
        async with open_sender(brokers) as sender:
            sent = await sender.send(home, pool_key(report.pool), wire.encode(report))
        try:
            async with asyncio.timeout(wait_s):
                decision = await _first_after(log, {answers: start}, report.pool, sent.timestamp)
        except TimeoutError:
            decision = None
    return Published(before, report, decision)


async def _first_after(
    log: Log, starts: Mapping[TopicPartition, int], pool: str, append_ms: int
) -> ControlDecision | None:
    """The pool's first decision for a boundary behind the report: it obeys it (T4)."""
    async with aclosing(log.follow(starts)) as records:
        async for record in records:
            try:
                found = wire.decode(record.value)
            except BadRecord:
                continue
            if not isinstance(found, ControlDecision) or found.pool != pool:
                continue
            if found.at_ms > append_ms:
                return found
    return None


def _say(published: Published) -> None:
    report, now = published.report, published.decision
    name = f"pool {report.pool}: {said(report)}"
    if now is None:
        note(
            f"{name}: in the log, and no decision has it yet: it takes effect when a gateway "
            "reports and a control worker runs (`tokenweir status`)"
        )
        return
    print(f"{name}: in force since decision {now.id}")
    if report.tokens_per_s not in (None, now.capacity):
        note(f"something else came after it: the pool now has {words.rate(now.capacity)}")


def said(report: CapacityReport) -> str:
    """What a report says, in words."""
    parts = []
    if report.tokens_per_s is not None:
        parts.append(words.rate(report.tokens_per_s))
    if report.kv_bytes is not None:
        parts.append(f"{words.size(report.kv_bytes)} KV cache")
    if report.sequences is not None:
        parts.append(f"{words.number(report.sequences)} sequences")
    return ", ".join(parts)


def row_of(published: Published) -> Row:
    """The exact figures."""
    report, now = published.report, published.decision
    return {
        "pool": report.pool,
        "source": report.source,
        "milli_tokens_per_s": report.tokens_per_s,
        "kv_bytes": report.kv_bytes,
        "sequences": report.sequences,
        "capacity_before_milli_tokens_per_s": published.before.capacity,
        "capacity_milli_tokens_per_s": now.capacity if now else None,
        "decision": now.id if now else None,
    }
