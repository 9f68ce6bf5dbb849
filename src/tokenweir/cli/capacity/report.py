"""`tokenweir capacity report`: measure what vLLM servers can do, and tell the pool."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from urllib.parse import urlsplit

from aiokafka import TopicPartition

from tokenweir import wire
from tokenweir.capacity.estimate import Each
from tokenweir.capacity.report import Reporter, Told, Watched
from tokenweir.cli import figures
from tokenweir.cli.capacity.given import read_option
from tokenweir.cli.capacity.set import SEQUENCES, said
from tokenweir.cli.log import open_log
from tokenweir.cli.pools import Row, read_control
from tokenweir.cli.send import Sender, open_sender
from tokenweir.cli.settings import Settings
from tokenweir.cli.show import note, show_line
from tokenweir.errors import BadInput, Unavailable
from tokenweir.records.spec import TokenWeights
from tokenweir.records.usage import CapacityReport
from tokenweir.spec.quantity import BYTES, SOME_RATE, duration
from tokenweir.topics import Topics, partition_of, pool_key

SOURCE = "vllm"
EVERY = duration("100 ms", "1 min")


def run(
    settings: Settings,
    pool: str,
    urls: Sequence[str],
    every: str,
    tokens_per_s: str | None,
    kv_bytes_per_token: str | None,
    sequences: str | None,
    count: int | None,
    output: str,
) -> None:
    """Report until Ctrl-C, or until `count` reports are sent; each one is a line."""
    each = Each(
        read_option("--tokens-per-s", SOME_RATE, tokens_per_s),
        read_option("--kv-bytes-per-token", BYTES, kv_bytes_per_token),
        read_option("--sequences", SEQUENCES, sequences),
    )
    every_ms = read_option("--every", EVERY, every) or 0
    check_urls(urls)
    asyncio.run(_report(settings, pool, urls, every_ms / 1000, each, count, output))


def check_urls(urls: Sequence[str]) -> None:
    """Raise `BadInput` for what is no web page, and for a server that would count twice."""
    for url in urls:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadInput(f"--url: value {url!r}: http://HOST:PORT/metrics is allowed")
        if urls.count(url) > 1:
            raise BadInput(f"--url: value {url!r} is given twice: each server counts once")


async def _report(
    settings: Settings,
    pool: str,
    urls: Sequence[str],
    every_s: float,
    each: Each,
    count: int | None,
    output: str,
) -> None:
    weights, home = await _pool(settings, pool)
    async with open_sender(settings.need_brokers()) as sender:
        watched = Watched(pool, SOURCE, urls, each, weights, every_s)
        reporter = Reporter(watched, lambda report: _send(sender, home, report), note)
        async with aclosing(reporter.reports()) as reports:
            async for told in reports:
                _show(told, output)
                count = None if count is None else count - 1
                if count == 0:
                    return


async def _pool(settings: Settings, pool: str) -> tuple[TokenWeights, TopicPartition]:
    """What a token of each kind is charged in the pool, and where its log is."""
    topics = Topics(settings.topic_prefix)
    async with open_log(settings.need_brokers()) as log:
        (decision,) = (await read_control(log, topics, pool)).decisions
        partitions = await log.partitions(topics.usage)
    return decision.token_weights, partitions[partition_of(pool, len(partitions))]


async def _send(sender: Sender, home: TopicPartition, report: CapacityReport) -> bool:
    """Whether the broker has it; a broker that is away for a while does not end the reporter."""
    try:
        await sender.send(home, pool_key(report.pool), wire.encode(report))
    except Unavailable as error:
        note(str(error))
        return False
    return True


def _show(told: Told, output: str) -> None:
    if output == "json":
        show_line(row_of(told))
    else:
        print(line_of(told), flush=True)


def row_of(told: Told) -> Row:
    """The exact figures of one report."""
    report, up = told.report, [server for server in told.servers if server.is_up]
    return {
        "pool": report.pool,
        "milli_tokens_per_s": report.tokens_per_s,
        "kv_bytes": report.kv_bytes,
        "sequences": report.sequences,
        "servers_up": len(up),
        "servers": len(told.servers),
        "measured_servers": sum(server.rate is not None for server in up),
        "running_requests": sum(server.last.running for server in up if server.last),
        "waiting_requests": sum(server.last.waiting for server in up if server.last),
        "kv_use_millionths": _kv_use(told),
        "scrapes": told.scrapes,
        "failed_scrapes": told.failed,
    }


def line_of(told: Told) -> str:
    """One report as people read it."""
    row = row_of(told)
    parts = [
        f"{row['pool']}: {said(told.report)}",
        f"{row['servers_up']} of {row['servers']} servers up",
        f"{row['running_requests']} running, {row['waiting_requests']} waiting",
    ]
    if row["kv_use_millionths"] is not None:
        parts.append(f"KV caches {figures.percent(row['kv_use_millionths'])} full")
    if row["failed_scrapes"]:
        parts.append(f"{row['failed_scrapes']} of {row['scrapes']} scrapes failed")
    return "; ".join(parts)


def _kv_use(told: Told) -> int | None:
    """The mean over the servers that say it."""
    uses = [server.last.kv_use for server in told.servers if server.is_up and server.last]
    known = [use for use in uses if use is not None]
    return round(sum(known) / len(known) * 1_000_000) if known else None
