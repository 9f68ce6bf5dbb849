"""The command line on a real broker: what is published by hand here is what it shows."""

import asyncio
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tokenweir import wire
from tokenweir.cli.log import open_log
from tokenweir.cli.specs.plan import Source, plan
from tokenweir.cli.specs.publish import publish as send
from tokenweir.records.control import ClassState, ControlDecision, GatewayLeases, Roster
from tokenweir.records.journal import (
    AuditEntry,
    DecisionEntry,
    GatewayFigures,
    JournalEntry,
    TenantFigures,
)
from tokenweir.records.spec import CLASSES, PoolSpec, TokenWeights
from tokenweir.spec import read_spec
from tokenweir.topics import Topics, leases_key, partition_of, pool_key, roster_key

pytestmark = pytest.mark.broker

PARTITIONS = 3
COMMAND = [sys.executable, "-c", "from tokenweir.cli import main; main()"]
SPEC = """\
pool: chat
capacity: {tokens_per_s: 20k/s}
tenants:
  acme: {class: guaranteed, baseline: 6000}
  evals: {class: spot}
"""


@pytest.fixture
def topics(brokers: str, prefix: str) -> Topics:
    found = Topics(prefix)
    asyncio.run(create(brokers, found))
    return found


async def create(brokers: str, topics: Topics) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=brokers)
    await admin.start()
    names = (topics.usage, topics.control, topics.journal, topics.dead_letter)
    await admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names])
    await admin.close()


def publish(brokers: str, *records: tuple[str, bytes, object]) -> None:
    """Each record is a topic, a key (it begins with the pool's name) and a value."""
    asyncio.run(_publish(brokers, records))


async def _publish(brokers: str, records: tuple[tuple[str, bytes, object], ...]) -> None:
    async with AIOKafkaProducer(bootstrap_servers=brokers) as producer:
        for topic, key, value in records:
            number = partition_of(key.decode().split("/")[0], PARTITIONS)
            data = value if isinstance(value, bytes) else wire.encode(value)
            await producer.send_and_wait(topic, data, key=key, partition=number)


def specs(brokers: str, topics: Topics, pool: str) -> list[PoolSpec]:
    return asyncio.run(_specs(brokers, topics, pool))


async def _specs(brokers: str, topics: Topics, pool: str) -> list[PoolSpec]:
    part = TopicPartition(topics.usage, partition_of(pool, PARTITIONS))
    async with AIOKafkaConsumer(bootstrap_servers=brokers) as consumer:
        consumer.assign([part])
        await consumer.seek_to_beginning(part)
        end = (await consumer.end_offsets([part]))[part]
        found = []
        while await consumer.position(part) < end:
            found += (await consumer.getmany(part, timeout_ms=500)).get(part, [])
    return [wire.decode(record.value) for record in found if record.key == pool_key(pool)]


def run(
    brokers: str, topics: Topics, *arguments: str, text: str = "", code: int = 0
) -> subprocess.CompletedProcess[str]:
    environ = {
        "PATH": os.environ["PATH"],
        "TOKENWEIR_BROKERS": brokers,
        "TOKENWEIR_TOPIC_PREFIX": topics.prefix,
    }
    done = subprocess.run(
        [*COMMAND, *arguments], input=text, text=True, capture_output=True, env=environ, timeout=150
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def at_now() -> int:
    return int(time.time() * 1000)


def decision(pool: str = "chat", version: int = 1, at_ms: int = 0) -> ControlDecision:
    at_ms = at_ms or at_now()
    return ControlDecision(
        pool=pool,
        at_ms=at_ms,
        id=f"{pool}@{at_ms}",
        spec_version=version,
        mode="enforce",
        interval_ms=1000,
        longest_request_ms=600_000,
        tier="soft_degrade",
        breaker="closed",
        breaker_refuses="borrowers",
        probe_rate=0,
        level=731_000,
        level_now=742_000,
        lent=120_000,
        alpha=800_000,
        capacity=20_000_000,
        granted=15_250_000,
        priority_threshold="spot",
        parts=1,
        token_weights=TokenWeights(1_000_000, 1_000_000, 1_000_000),
        classes=[ClassState(name, "none", 1_000_000, 0, "refuse") for name in CLASSES],
        unknown_class="spot",
    )


def entry(now: ControlDecision) -> JournalEntry:
    tenants = TenantFigures(
        tenant=["acme", "evals"],
        service_class=["guaranteed", "spot"],
        baseline=[6_000_000, 0],
        demand=[7_500_000, 9_000_000],
        rate=[5_900_000, 1_200_000],
        used=[354_000, 72_000],
        weight=[500_000_000, 1_000_000],
        floor=[6_000_000, 0],
        grant=[7_500_000, 1_500_000],
        leased=[7_500_000, 1_500_000],
        debt=[0, 0],
        refused=[0, 31],
        refused_tokens=[0, 12_000],
        queued=[0, 4],
        spent=[5_900, 1_200],
    )
    gateways = GatewayFigures(["gw-1"], [9], [now.at_ms - 1000], [now.at_ms], [9_000_000], [0])
    body = DecisionEntry(now, tenants, gateways, used=426_000, budget=1_200_000)
    return JournalEntry(now.pool, now.at_ms, now.id, body)


def leases(pool: str = "chat") -> GatewayLeases:
    now = at_now()
    return GatewayLeases(
        pool=pool,
        gateway="gw-1",
        part=0,
        parts=1,
        at_ms=now,
        expires_ms=now + 600_000,
        floor_expires_ms=now + 900_000,
        pot_rate=500_000,
        pot_burst=250_000,
        tenant=["acme", "evals"],
        rate=[7_500_000, 1_500_000],
        burst=[3_750_000, 750_000],
        floor=[6_000_000, 0],
        sequences=[20, 4],
        kv_bytes=[2**31, 0],
        ceiling_tenant=[],
        ceiling_user=[],
        ceiling_window_id=[],
        ceiling_starts_ms=[],
        ceiling_ends_ms=[],
        ceiling_tokens=[],
    )


def publish_pool(brokers: str, topics: Topics) -> ControlDecision:
    now = decision()
    publish(
        brokers,
        (topics.control, leases_key("chat", "gw-1", 0), leases()),
        (
            topics.control,
            roster_key("chat"),
            Roster(
                "chat", 1, ["acme", "evals", "lab"], ["guaranteed", "spot", "elastic"], [None] * 3
            ),
        ),
        (topics.control, pool_key("chat"), decision(at_ms=now.at_ms - 1000)),
        (topics.control, pool_key("chat"), now),
        (topics.journal, pool_key("chat"), entry(replace(now, at_ms=now.at_ms - 1000))),
        (topics.journal, pool_key("chat"), entry(now)),
        (topics.journal, pool_key("chat"), entry(now)),  # made again after a crash (S6)
    )
    return now


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "pool.yaml"
    path.write_text(SPEC)
    return str(path)


def test_apply_publishes_the_first_version_of_a_new_pool(
    brokers: str, topics: Topics, file: str
) -> None:
    done = run(brokers, topics, "apply", "-f", file, "--yes", "--wait", "0", code=3)
    (spec,) = specs(brokers, topics, "chat")
    assert (spec.version, spec.replaces, spec.source) == (1, 0, SPEC)
    assert done.stdout.startswith("pool chat: new\n")
    assert "+ tenants.acme           guaranteed, baseline 6 000 tokens/s, slo 1 s" in done.stdout
    assert "pool chat: version 1 is in the log, and no decision has it yet" in done.stderr


def test_apply_replaces_what_the_log_says_is_in_force(
    brokers: str, topics: Topics, file: str
) -> None:
    run(brokers, topics, "apply", "-f", file, "--yes", "--wait", "0", code=3)
    changed = SPEC.replace("6000", "7000")
    done = run(brokers, topics, "apply", "-f", "-", "-y", "--wait", "0", text=changed, code=3)
    assert [(s.version, s.replaces) for s in specs(brokers, topics, "chat")] == [(1, 0), (2, 1)]
    assert done.stdout == (
        "pool chat: version 1 -> 2\n  ~ tenants.acme.baseline  6 000 tokens/s -> 7 000 tokens/s\n"
    )


def test_apply_of_what_is_in_force_publishes_nothing(
    brokers: str, topics: Topics, file: str
) -> None:
    run(brokers, topics, "apply", "-f", file, "--yes", "--wait", "0", code=3)
    done = run(brokers, topics, "apply", "-f", file, "--yes")
    assert done.stdout == "pool chat: version 1, no change\n"
    assert len(specs(brokers, topics, "chat")) == 1


def test_a_dry_run_shows_the_difference_and_publishes_nothing(
    brokers: str, topics: Topics, file: str
) -> None:
    done = run(brokers, topics, "apply", "-f", file, "--dry-run", "-o", "json")
    (row,) = json.loads(done.stdout)
    assert (row["pool"], row["version"], row["replaces"], row["state"]) == ("chat", 1, 0, "planned")
    assert specs(brokers, topics, "chat") == []


def test_apply_without_a_terminal_wants_yes(brokers: str, topics: Topics, file: str) -> None:
    done = run(brokers, topics, "apply", "-f", file, code=1)
    assert "give --yes to apply, or --dry-run to look" in done.stderr
    assert specs(brokers, topics, "chat") == []


def test_apply_of_several_files_publishes_none_when_one_is_bad(
    brokers: str, topics: Topics, file: str, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("pool: other\ncapacity: {tokens_per_s: .nan}\n")
    done = run(brokers, topics, "apply", "-f", file, "-f", str(bad), "-f", file, "-y", code=1)
    assert f"{bad}:2: capacity.tokens_per_s: value '.nan': more than 0 tokens" in done.stderr
    assert f"{file}: pool chat is in {file} already: one file a pool" in done.stderr
    assert specs(brokers, topics, "chat") == []


def test_a_decision_names_the_version_when_the_log_has_its_spec_no_more(
    brokers: str, topics: Topics, file: str
) -> None:
    publish(brokers, (topics.control, pool_key("chat"), decision(version=7)))
    done = run(brokers, topics, "apply", "-f", file, "--yes", "--wait", "0", code=3)
    assert "version 7 -> 8; the log has version 7 no more to compare" in done.stdout
    assert [(s.version, s.replaces) for s in specs(brokers, topics, "chat")] == [(8, 7)]


def answered(
    brokers: str, topics: Topics, file: str, answer: tuple[str, bytes, object], code: int
) -> subprocess.CompletedProcess[str]:
    """Apply, with this record as the control plane's answer once the spec is in the log."""
    environ = os.environ | {
        "TOKENWEIR_BROKERS": brokers,
        "TOKENWEIR_TOPIC_PREFIX": topics.prefix,
    }
    command = [*COMMAND, "apply", "-f", file, "--yes", "--wait", "120"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environ, stdout=pipe, stderr=pipe, text=True) as child:
        deadline = time.monotonic() + 120
        while not specs(brokers, topics, "chat"):
            assert time.monotonic() < deadline
        publish(brokers, answer)
        out, err = child.communicate(timeout=150)
    assert child.returncode == code, err
    return subprocess.CompletedProcess(command, child.returncode, out, err)


def test_apply_waits_for_the_decision_that_obeys_it(
    brokers: str, topics: Topics, file: str
) -> None:
    now = decision(version=1)
    done = answered(brokers, topics, file, (topics.control, pool_key("chat"), now), code=0)
    assert f"pool chat: version 1 in force since decision {now.id}" in done.stdout


def test_apply_says_why_it_was_rejected(brokers: str, topics: Topics, file: str) -> None:
    why = "it replaces version 0, and the current version is 4"
    audit = AuditEntry("spec_rejected", "chat", [], [], 0, "", "0", "1", why)
    record = JournalEntry("chat", at_now(), "chat@1/audit/1", audit)
    done = answered(brokers, topics, file, (topics.journal, pool_key("chat"), record), code=1)
    assert done.stderr == f"pool chat: version 1 was rejected: {why}\n"


async def test_a_spec_that_somebody_else_overtook_is_rejected(brokers: str, topics: Topics) -> None:
    # Read, read, write, write: both replace nothing, and the first in the log is accepted (T4).
    source = Source("f", SPEC, read_spec(SPEC, "f"))
    async with open_log(brokers) as log:
        plans = [await plan(log, topics, source) for _ in range(2)]
        first, second = [await send(brokers, log, topics, [one], 0) for one in plans]
    assert first["chat"].state == "waiting"
    assert second["chat"].state == "rejected"
    assert second["chat"].why.startswith("somebody else applied a spec at the same moment")


def test_get_pools_shows_the_newest_decisions(brokers: str, topics: Topics) -> None:
    now = publish_pool(brokers, topics)
    (row,) = json.loads(run(brokers, topics, "get", "pools", "-o", "json").stdout)
    assert (row["decision"], row["tenants"], row["gateways"]) == (now.id, 3, 1)
    assert row["granted_milli_tokens_per_s"] == 15_250_000
    head, line = run(brokers, topics, "get", "pools").stdout.splitlines()
    assert head.split()[:4] == ["POOL", "TIER", "LEVEL", "LENT"]
    assert line.split()[:5] == ["chat", "soft_degrade", "73%", "12%", "0.80"]


def test_get_tenants_shows_who_asked_and_who_got(brokers: str, topics: Topics) -> None:
    publish_pool(brokers, topics)
    done = run(brokers, topics, "get", "tenants", "--pool", "chat")
    assert [line.split()[1:3] for line in done.stdout.splitlines()[1:]] == [
        ["acme", "guaranteed"],
        ["evals", "spot"],
    ]
    assert "idle tenants left out: 1 (--all shows them)" in done.stderr
    rows = json.loads(run(brokers, topics, "get", "tenants", "--all", "-o", "json").stdout)
    assert [row["tenant"] for row in rows] == ["acme", "evals", "lab"]
    assert (rows[1]["grant_milli_tokens_per_s"], rows[1]["refused_requests"]) == (1_500_000, 31)


def test_get_leases_shows_each_gateways_part(brokers: str, topics: Topics) -> None:
    publish_pool(brokers, topics)
    rows = json.loads(run(brokers, topics, "get", "leases", "-o", "json").stdout)
    assert [row["tenant"] for row in rows] == ["acme", "evals", None]
    assert "(starter pot)" in run(brokers, topics, "get", "leases").stdout


def test_a_pool_that_does_not_exist_is_named_with_those_that_do(
    brokers: str, topics: Topics
) -> None:
    publish_pool(brokers, topics)
    done = run(brokers, topics, "get", "pools", "--pool", "caht", code=1)
    assert done.stderr == "--pool caht: no decision yet; pools with one: chat\n"


def test_tail_shows_each_decision_once(brokers: str, topics: Topics) -> None:
    now = publish_pool(brokers, topics)
    publish(brokers, (topics.journal, pool_key("chat"), b"no record"))
    publish(brokers, (topics.journal, pool_key("chat"), entry(decision(at_ms=now.at_ms + 1000))))
    arguments = ("tail", "--from-beginning", "--count", "3")
    lines = run(brokers, topics, *arguments).stdout.splitlines()
    assert len(lines) == 3
    assert lines[0].endswith(
        "chat  soft_degrade  level 73% + 12%  15.2k/s of 20k/s  refused 31  queued 4"
    )
    rows = map(json.loads, run(brokers, topics, *arguments, "-o", "json").stdout.splitlines())
    assert [row["at_ms"] - now.at_ms for row in rows] == [-1000, 0, 1000]


def test_ctrl_c_ends_tail_without_a_word(brokers: str, topics: Topics) -> None:
    publish_pool(brokers, topics)
    environ = os.environ | {"TOKENWEIR_BROKERS": brokers, "TOKENWEIR_TOPIC_PREFIX": topics.prefix}
    command = [*COMMAND, "tail", "--from-beginning"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environ, stdout=pipe, stderr=pipe, text=True) as child:
        assert child.stdout is not None
        assert "soft_degrade" in child.stdout.readline()
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=150)
    assert (child.returncode, err.strip()) == (130, "")


def test_status_shows_lag_and_decisions_and_which_parts_are_down(
    brokers: str, topics: Topics, tmp_path: Path
) -> None:
    publish_pool(brokers, topics)
    stack = {
        "brokers": brokers,
        "processes": [
            {"name": "us", "pid": os.getpid(), "state": "running", "log": "us.log"},
            {"name": "gone", "pid": 2**22 + 1, "state": "running", "log": "gone.log"},
        ],
    }
    (tmp_path / "stack.json").write_text(json.dumps(stack))
    asyncio.run(commit_first(brokers, topics))
    arguments = ("status", "--data", str(tmp_path))
    found = json.loads(run(brokers, topics, *arguments, "-o", "json", code=1).stdout)
    assert (found["kafka"]["state"], found["clickhouse"]["state"]) == ("up", "down")
    assert [process["state"] for process in found["processes"]] == ["running", "dead"]
    ours = [row for row in found["groups"] if row["group"] == f"{topics.prefix}history"]
    assert [(row["topic"], row["lag_records"]) for row in ours] == [(topics.journal, 2)]
    assert [row["pool"] for row in found["pools"]] == ["chat"]
    shown = run(brokers, topics, *arguments, code=1).stdout
    assert f"Kafka: up at {brokers}\n" in shown
    assert "ClickHouse: down: where is ClickHouse? Give --clickhouse" in shown


async def commit_first(brokers: str, topics: Topics) -> None:
    part = TopicPartition(topics.journal, partition_of("chat", PARTITIONS))
    consumer = AIOKafkaConsumer(
        bootstrap_servers=brokers, group_id=f"{topics.prefix}history", enable_auto_commit=False
    )
    await consumer.start()
    consumer.assign([part])
    await consumer.commit({part: 1})
    await consumer.stop()


def test_missing_topics_are_one_line(brokers: str) -> None:
    done = run(brokers, Topics(f"none-{uuid4()}-"), "get", "pools", code=1)
    assert "does not exist: start the control plane" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_table_fits_the_terminal(brokers: str, topics: Topics) -> None:
    publish_pool(brokers, topics)
    for width in (40, 60, 80, 120):
        shown = in_terminal(brokers, topics, width, "get", "pools")
        assert "soft_degrade" in shown
        table = [line for line in shown.splitlines() if not line.startswith("left out")]
        assert max(map(len, table)) <= width


def in_terminal(brokers: str, topics: Topics, width: int, *arguments: str) -> str:
    """What a command prints to a terminal of this width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    environ = {
        "PATH": os.environ["PATH"],
        "TERM": "xterm",
        "TOKENWEIR_BROKERS": brokers,
        "TOKENWEIR_TOPIC_PREFIX": topics.prefix,
    }
    child = subprocess.Popen([*COMMAND, *arguments], env=environ, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 65536):
            shown += part
    except OSError:  # Linux says so when the other side is closed
        pass
    os.close(ours)
    assert child.wait(timeout=150) == 0, shown
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.decode())
