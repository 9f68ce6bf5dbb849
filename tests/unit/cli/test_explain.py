"""`tokenweir explain`: the same story from the history, from the journal, and in words."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from clickhouse_connect.driver.client import Client

from streams.config import Config
from streams.topics import create_topics
from tests.unit.history.made import (
    NOON_MS,
    POOL,
    Increment,
    audit_entry,
    block,
    decision_entry,
    record,
    report,
)
from tokenweir.cli.history import explain
from tokenweir.cli.history.journal_story import read_journal, told
from tokenweir.cli.history.story import Story, decision_words, story_row, tenant_words
from tokenweir.cli.settings import Settings
from tokenweir.errors import BadInput
from tokenweir.history.client import connect
from tokenweir.history.insert import insert
from tokenweir.history.instants import instant_of
from tokenweir.history.lane import Lane
from tokenweir.history.rows import Place, Record
from tokenweir.history.store import checksums, open_journal, open_usage, prepare
from tokenweir.records.journal import DecisionEntry, JournalEntry, TenantFigures
from tokenweir.topics import Topics, partition_of
from tokenweir.wire import encode

ID = f"{POOL}@{NOON_MS}"


def with_figures(entry: JournalEntry, **columns: Any) -> JournalEntry:
    assert isinstance(entry.body, DecisionEntry)
    tenants: TenantFigures = replace(entry.body.tenants, **columns)
    return replace(entry, body=replace(entry.body, tenants=tenants))


BEFORE = with_figures(decision_entry(NOON_MS - 1000, tenants=("acme", "lab")), grant=[9_000_000, 1])
NOW = with_figures(
    decision_entry(NOON_MS, tier="soft_degrade", tenants=("acme", "lab")),
    baseline=[6_000_000, 0],
    demand=[12_000_000, 5_000_000],
    floor=[6_000_000, 0],
    grant=[8_000_000, 0],
    leased=[8_500_000, 0],
    weight=[83_200_000, 100_000],
    debt=[400_000, 0],
    spent=[8_000, 0],
    refused=[12, 30],
    refused_tokens=[4_000, 9_000],
    queued=[3, 0],
)
AFTER = decision_entry(NOON_MS + 1000)
ENTRIES = (
    audit_entry(NOON_MS - 31_000, 0, why="too long ago"),
    BEFORE,
    NOW,
    audit_entry(NOON_MS, 0, why="the level was above 0.7 for 2 decisions"),
    AFTER,
    audit_entry(NOON_MS + 1000, 0, why="later"),
)


def near() -> list[JournalEntry]:
    return [entry for entry in ENTRIES if abs(entry.at_ms - NOON_MS) <= 30_000]


@pytest.fixture
def story() -> Story:
    return told(POOL, NOON_MS, near())


def test_an_id_names_a_decision_or_an_entry_of_its_audit() -> None:
    assert explain.parsed("a@b@17") == ("a@b", 17)
    assert explain.parsed("chat@17/audit/3") == ("chat", 17)


@pytest.mark.parametrize("text", ["chat", "chat@", "@17", "chat@17x", "chat@1.7"])
def test_what_is_no_id_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadInput, match="such as chat@1767323045000"):
        explain.parsed(text)


def test_a_decision_that_is_not_there_names_its_neighbour(story: Story) -> None:
    with pytest.raises(BadInput, match=f"the one before it is {ID}"):
        told(POOL, NOON_MS + 500, near())
    with pytest.raises(BadInput, match=f"no decision {POOL}@{NOON_MS}$"):
        told(POOL, NOON_MS, [])


def test_a_decision_is_told_in_a_few_lines(story: Story) -> None:
    assert list(decision_words(story)) == [
        f"{ID}: 2026-05-29 12:00:00.000 UTC, spec version 1, mode enforce",
        "level 50% (over the window 51%), spot and preemptible take 0% beside it;"
        " used 30 of 60 tokens in the window",
        "tier soft_degrade (before: normal); breaker closed; alpha 0.80",
        "granted 400/s of 1k/s",
        "classes held back: spot limit",
    ]


def test_a_tenants_story_is_told_in_sentences(story: Story) -> None:
    assert list(tenant_words(story, "acme")) == [
        "acme (guaranteed) asked for 12k/s and was granted 8k/s.",
        "Its baseline is 6k/s; 6k/s was kept for it.",
        "2k/s of its grant is borrowed: what others leave, shared by weight.",
        "Its weight was 83.20, raised by a debt of 0.40.",
        "Its gateways may hold 8.5k/s in leases.",
        "Since the decision before, it had spent 8k tokens, 12 requests (4k tokens) were refused,"
        " and 3 waited.",
        "The decision before had granted it 9k/s.",
        "2026-05-29 12:00:00.000 UTC: tier of pool-a: 0.005/s from spot-1 to acme, normal"
        " → soft_degrade: the level was above 0.7 for 2 decisions.",
        "2026-05-29 12:00:01.000 UTC: tier of pool-a: 0.005/s from spot-1 to acme, normal"
        " → soft_degrade: later.",
    ]


def test_a_tenant_that_got_nothing_reads_why(story: Story) -> None:
    words = list(tenant_words(story, "lab"))
    assert words[0] == "lab (guaranteed) asked for 5k/s and was granted 0/s."
    assert "Nothing was left to borrow, or its class may not." in words


def test_a_tenant_without_figures_was_idle(story: Story) -> None:
    assert list(tenant_words(story, "new")) == [
        "new was idle, or the spec does not name it: it asked for and held nothing."
    ]


def test_json_is_exact_and_says_units(story: Story) -> None:
    row = story_row(story, "acme")
    (acme,) = row["tenants"]
    assert acme["grant_milli_tokens_per_s"] == 8_000_000
    assert acme["weight_millionths"] == 83_200_000
    assert row["decision"]["level_millionths"] == 500_000
    assert len(row["audit"]) == 2
    assert row["requests"] is None


@pytest.mark.clickhouse
class TestHistory:
    @pytest.fixture
    def url(self, database: str) -> Iterator[str]:
        client = connect(database)
        prepare(client)
        journal = [
            record(place, entry, append_ms=entry.at_ms + 5, place=Place("journal", 0))
            for place, entry in enumerate(ENTRIES)
        ]
        self.take(client, open_journal(client, Place("journal", 0)), journal)
        rows = (
            Increment("r1", "acme", status="refused", reason="tokens", refused_tokens=40),
            Increment("r2", "acme", status="refused", reason="tokens", refused_tokens=2),
            Increment("r3", "lab", status="refused", reason="class_refused", refused_tokens=7),
            Increment("r4", "acme", out=5),
            Increment("r5", "acme", status="part", out=5),
        )
        under = replace(block(rows), decision=[NOON_MS] * len(rows))
        reported = report(1, *rows, requests=encode(under))
        used = [record(0, reported, append_ms=NOON_MS + 700)]
        self.take(client, open_usage(client, Place("usage", 0), 1), used)
        yield database
        client.close()

    @staticmethod
    def take(client: Client, lane: Lane, records: list[Record]) -> None:
        lane.receive(records, 0.0)
        while lane.waiting:
            for one in lane.next_batch(lambda entries: checksums(client, entries)).blocks:
                insert(client, lane.place, one)

    def test_the_history_tells_what_the_journal_tells_and_how_requests_ended(
        self, url: str, story: Story
    ) -> None:
        found = explain.read_history(url, POOL, NOON_MS)
        assert found.ends is not None
        assert replace(found, ends=None) == story
        assert [
            (e.tenant, e.status, e.reason, e.requests, e.refused_tokens) for e in found.ends
        ] == [
            ("acme", "done", "", 1, 0),
            ("acme", "refused", "tokens", 2, 42),
            ("lab", "refused", "class_refused", 1, 7),
        ]
        words = list(tenant_words(found, "acme"))
        assert "Under this decision 2 requests (42 tokens) were refused: tokens." in words
        assert "Of the requests that this decision let in, 1 ended: done." in words

    def test_a_decision_that_the_history_has_not_names_its_neighbour(self, url: str) -> None:
        with pytest.raises(BadInput, match=f"the one before it is {ID}"):
            explain.read_history(url, POOL, NOON_MS + 500)
        with pytest.raises(BadInput, match="it has none up to then"):
            explain.read_history(url, "other", NOON_MS)

    def test_the_command_prints_a_table_a_story_or_json(
        self, url: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        settings = Settings(clickhouse=url)
        explain.run(settings, ID, None, "table")
        out = capsys.readouterr().out
        assert "tier soft_degrade" in out
        line = next(line for line in out.splitlines() if line.startswith("acme"))
        assert line.split()[:8] == [
            "acme",
            "guaranteed",
            "6k/s",
            "12k/s",
            "6k/s",
            "83.20",
            "0.40",
            "8k/s",
        ]
        assert "gw-1" in out
        assert "refused under it: acme tokens 2" in out

        explain.run(settings, f"{ID}/audit/0", "acme", "table")
        assert "acme (guaranteed) asked for 12k/s" in capsys.readouterr().out
        explain.run(settings, ID, None, "json")
        assert json.loads(capsys.readouterr().out)["decision"]["at"].startswith("2026-05-29T12")


@pytest.mark.broker
async def test_the_journal_in_kafka_tells_it_where_there_is_no_history(
    brokers: str, prefix: str, story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    await create_topics(Config(topic_prefix=prefix, partitions=2), brokers)
    async with AIOKafkaProducer(bootstrap_servers=brokers) as producer:
        for entry in (*ENTRIES, NOW):  # a repeat is the same (S6)
            place: dict[str, Any] = {"key": POOL.encode(), "partition": partition_of(POOL, 2)}
            await producer.send_and_wait(Topics(prefix).journal, encode(entry), **place)
    settings = Settings(brokers=brokers, topic_prefix=prefix)
    found = await read_journal(settings, POOL, NOON_MS, explain.AROUND)
    assert found == story
    await asyncio.to_thread(explain.run, settings, ID, "acme", "table")
    assert "acme (guaranteed) asked for 12k/s" in capsys.readouterr().out
    with pytest.raises(BadInput, match="no decision"):
        await read_journal(settings, POOL, 17, explain.AROUND)
    assert instant_of(NOON_MS) == found.decision.at
