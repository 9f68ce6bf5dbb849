"""Review on a real broker: what a deployment decided is computed again, and nothing is written."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from streams.config import Config
from streams.topics import create_topics
from tests.broker.deployment import REAL_WORKER, Deployment, deployed, until
from tests.pools import report, spec, tenant
from tests.recordings import ZONES, minute
from tokenweir.errors import BadInput, Unavailable
from tokenweir.records.journal import AuditEntry, DecisionEntry, JournalEntry, SnapshotChunk
from tokenweir.records.spec import PoolSpec
from tokenweir.records.usage import CapacityReport
from tokenweir.review.container import FileLog
from tokenweir.review.kafka import KafkaLog
from tokenweir.review.replay import Outcome, replay
from tokenweir.review.span import Span
from tokenweir.topics import Topics

EVERYTHING = Span()
pytestmark = pytest.mark.broker

COMMAND = [sys.executable, "-c", "from tokenweir.cli import main; main()"]
POOLS = ("chat", "code")
CHANGED = """\
pool: code
capacity: {tokens_per_s: 10k/s}
interval: 500ms
alpha: 0.2
tenants:
  gold: {class: guaranteed, baseline: 5000}
  iron: {class: elastic, baseline: 1000}
  tin: {class: spot}
"""
TENANTS = (
    tenant("gold", "guaranteed", 5_000),
    tenant("iron", "elastic", 1_000, quotas=[minute(2_000)]),
    tenant("tin", "spot"),
)


def command(
    brokers: str, prefix: str, *arguments: str, code: int = 0
) -> subprocess.CompletedProcess[str]:
    environ = {
        **{name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ},
        "TOKENWEIR_BROKERS": brokers,
        "TOKENWEIR_TOPIC_PREFIX": prefix,
    }
    done = subprocess.run(
        [*COMMAND, *arguments], text=True, capture_output=True, env=environ, timeout=150
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


async def again(brokers: str, prefix: str, pool: str, span: Span = EVERYTHING) -> Outcome:
    """What a replay of the deployment's topics finds."""
    outcome = await replay(await KafkaLog.open(brokers, Topics(prefix), pool), span)
    assert outcome.is_identical, outcome
    return outcome


async def ends(brokers: str, topics: Topics) -> dict[TopicPartition, int]:
    """Where each partition of each topic ends."""
    consumer = AIOKafkaConsumer(bootstrap_servers=brokers)
    await consumer.start()
    names = (topics.usage, topics.control, topics.journal, topics.dead_letter)
    places = [TopicPartition(name, number) for name in names for number in range(4)]
    found: dict[TopicPartition, int] = await consumer.end_offsets(places)
    await consumer.stop()
    return found


@dataclass(slots=True)
class Traffic:
    """Two gateways of each pool, which obey at once what they hear of."""

    deployment: Deployment
    sequences: dict[tuple[str, str], int] = field(default_factory=dict)
    rules: dict[str, PoolSpec] = field(default_factory=dict)
    applied: dict[str, int] = field(default_factory=dict)
    count: int = 0

    async def apply(self) -> None:
        """The next version of each pool's spec."""
        for pool in POOLS:
            version = self.rules[pool].version + 1 if pool in self.rules else 1
            rules = spec(*TENANTS, pool=pool, interval_ms=500, version=version, zones=ZONES)
            self.rules[pool] = rules
            await self.deployment.send(rules)

    async def capacity(self, tokens_per_s: int) -> None:
        """What the backends can do changes."""
        for pool in POOLS:
            known = CapacityReport(pool, "test", tokens_per_s * 1000, None, None)
            await self.deployment.send(known)

    async def round(self, gold: int = 100, tin: int = 400) -> None:
        """One report of each gateway for each pool."""
        self.count += 1
        for pool in POOLS:
            for gateway in ("gw-a", "gw-b"):
                number = self.sequences.get((pool, gateway), 0) + 1
                self.sequences[pool, gateway] = number
                used = {"gold": gold + self.count % 7, "iron": 60, "tin": tin}
                refused = {"gold": 40} if gold > 100 else {"tin": 900}
                applied = self.applied.get(pool, 0)
                await self.deployment.send(
                    report(gateway, number, used, refused=refused, applied=applied, pool=pool)
                )

    async def rounds(self, count: int, gold: int = 100, tin: int = 400) -> None:
        """So many rounds, as often as gateways report; they obey the newest decision after it."""
        for _ in range(count):
            await self.round(gold, tin)
            await asyncio.sleep(0.1)
        self.deployment.assert_alive()
        for pool, at_ms in (await newest(self.deployment)).items():
            self.applied[pool] = at_ms


async def newest(deployment: Deployment) -> dict[str, int]:
    """Each pool's newest decision."""
    found: dict[str, int] = {}
    for entry in await deployment.journal():
        if isinstance(entry.body, DecisionEntry):
            found[entry.pool] = max(found.get(entry.pool, 0), entry.at_ms)
    return found


def kinds(journal: Iterable[JournalEntry], pool: str) -> set[str]:
    """What the audit tells of."""
    found = (entry.body for entry in journal if entry.pool == pool)
    return {body.kind for body in found if isinstance(body, AuditEntry)}


async def goes_on(traffic: Traffic) -> None:
    """Wait for a decision of each pool that is not there yet."""
    before = await newest(traffic.deployment)

    async def decided() -> bool:
        traffic.deployment.assert_alive()
        await traffic.round()
        now = await newest(traffic.deployment)
        return all(now.get(pool, 0) > before.get(pool, 0) for pool in POOLS)

    await until(decided, "a decision of each pool")


async def all_decided(deployment: Deployment) -> None:
    """Wait until what was sent last is decided too, where it reached a boundary."""

    async def decided() -> bool:
        prefix = deployment.config.topic_prefix
        found = [await again(deployment.brokers, prefix, pool) for pool in POOLS]
        return not any(outcome.unrecorded for outcome in found)

    await until(decided, "the decisions of all that was sent")


async def told(traffic: Traffic, kind: str, gold: int = 100, tin: int = 400) -> None:
    """Go on until the audit of each pool tells of this too."""

    async def tells() -> bool:
        await traffic.rounds(1, gold, tin)
        journal = await traffic.deployment.journal()
        return all(kind in kinds(journal, pool) for pool in POOLS)

    await until(tells, f"{kind} in the audit")


async def a_bad_day(deployment: Deployment) -> None:
    """A quota that is spent, owners who come back, capacity lost and back, the breaker, a bad
    record, a crash and a rebalance.
    """
    traffic = Traffic(deployment)
    await traffic.apply()
    await goes_on(traffic)
    await traffic.rounds(12)
    await traffic.rounds(8, gold=400, tin=100)  # the owner takes back what was lent
    await told(traffic, "reclaim", gold=400, tin=100)
    await traffic.capacity(3_000)
    await traffic.rounds(12, tin=6_000)  # more than there is: the breaker opens
    await told(traffic, "breaker", tin=6_000)
    deployment.workers["0"].kill()
    await traffic.rounds(4)
    deployment.work("1")
    await deployment.send(replace(report("gw-x", 1, {"gold": 1}, pool="chat"), applied=2**60))
    await goes_on(traffic)
    deployment.work("0")  # joins: the partitions are dealt again
    await traffic.apply()
    await traffic.capacity(12_000)
    await traffic.rounds(25)
    await goes_on(traffic)
    await all_decided(deployment)
    for worker in deployment.workers.values():
        worker.kill()


def judged(brokers: str, prefix: str, folder: Path, decisions: int) -> None:
    """The same log under another policy, and told on a page."""
    policy, page = folder / "changed.yaml", folder / "page.html"
    policy.write_text(CHANGED)
    given = ("--pool", "code", "--policy", str(policy))
    told = json.loads(command(brokers, prefix, "what-if", *given, "--output", "json").stdout)
    assert told["recorded"]["decisions"] == told["changed"]["decisions"] == decisions
    assert told["identical"] is False
    given = ("--pool", "code", "--html", str(page))
    told = json.loads(command(brokers, prefix, "report", *given, "--output", "json").stdout)
    assert told["decisions"] == decisions
    assert "The breaker went from closed to open" in page.read_text()


async def test_a_bad_day_is_the_same_from_the_start_a_snapshot_a_file_and_a_copy(
    brokers: str, prefix: str, tmp_path: Path
) -> None:
    async with deployed(brokers, prefix, tmp_path, "0", worker=REAL_WORKER) as deployment:
        await a_bad_day(deployment)
        journal = await deployment.journal()
        before = await ends(brokers, deployment.topics)
        for pool in POOLS:
            ids = {e.id for e in journal if e.pool == pool and isinstance(e.body, DecisionEntry)}
            whole = await again(brokers, prefix, pool)
            assert whole.start.is_blank
            assert whole.same.decisions == len(ids) > 20
            assert kinds(journal, pool) >= {"spec", "capacity", "reclaim", "quota", "breaker"}
        chunks = [e for e in journal if e.pool == "code" and isinstance(e.body, SnapshotChunk)]
        newest_ms = max(chunk.at_ms for chunk in chunks)
        late = await again(brokers, prefix, "code", Span(from_ms=newest_ms + 1))
        assert late.start.at_ms == newest_ms
        assert late.same.decisions > 0
        all_, some, copy = tmp_path / "all.avro", tmp_path / "some.avro", f"{prefix}copy-"
        command(brokers, prefix, "export", str(all_), "--pool", "code")
        since = ("--pool", "code", "--from", str(newest_ms + 1))
        command(brokers, prefix, "export", str(some), *since)
        command(brokers, prefix, "import", str(some), "--prefix", copy)
        assert (await replay(FileLog(all_), EVERYTHING)).same == whole.same
        for other in (
            await replay(FileLog(some), Span(from_ms=newest_ms + 1)),
            await again(brokers, copy, "code"),
        ):
            assert (other.same.decisions, other.same.last) == (late.same.decisions, late.same.last)
        said = command("nowhere:1", "", "replay", "--file", str(all_), "--output", "json")
        assert json.loads(said.stdout)["decisions"] == whole.same.decisions
        judged(brokers, prefix, tmp_path, whole.same.decisions)
        assert await ends(brokers, deployment.topics) == before
        refused = command(brokers, prefix, "import", str(some), "--prefix", prefix, code=1)
        assert "is there already" in refused.stderr


async def test_ranges_without_decisions_and_empty_partitions_are_exact(
    brokers: str, prefix: str, tmp_path: Path
) -> None:
    config = Config(brokers=brokers, topic_prefix=prefix, data=tmp_path, partitions=4)
    await create_topics(config, brokers)
    before = await ends(brokers, Topics(prefix))
    for span in (
        EVERYTHING,
        Span(from_ms=1_600_000_000_000, to_ms=1_600_000_060_000),
        Span(from_ms=2_000_000_000_000),
        Span(from_offset=0, to_offset=9),
    ):
        outcome = await again(brokers, prefix, "chat", span)
        assert (outcome.same.decisions, outcome.messages) == (0, 0)
    said = command(brokers, prefix, "replay", "--pool", "chat", "--from", "10min")
    assert "pool chat: no decisions in this range" in said.stdout
    assert await ends(brokers, Topics(prefix)) == before


async def test_without_topics_and_pools_it_says_what_to_do(brokers: str, prefix: str) -> None:
    with pytest.raises(Unavailable, match="start the control plane, which creates it"):
        await KafkaLog.open(brokers, Topics(prefix), "chat")
    with pytest.raises(BadInput, match="allowed is a name without a slash"):
        await KafkaLog.open(brokers, Topics(prefix), "a/b")
