"""The history on a real ClickHouse engine: what stands in the tables, and what queries say."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from clickhouse_connect.driver.client import Client

from tests.unit.history.made import (
    NOON_MS,
    POOL,
    Increment,
    audit_entry,
    decision_entry,
    record,
    report,
)
from tokenweir.errors import BadInput, Unavailable
from tokenweir.history.client import connect
from tokenweir.history.ddl import Column, Table
from tokenweir.history.insert import comment_of, insert
from tokenweir.history.instants import instant_of
from tokenweir.history.lane import Lane
from tokenweir.history.money import MONEY, money
from tokenweir.history.queries import (
    AuditOf,
    DecisionsOf,
    FiguresAt,
    ReadSoFar,
    RefusalsByReason,
    TierTime,
    TotalsOf,
    UsageByTenant,
    read,
)
from tokenweir.history.rows import DAY_MS, Block, Place, Record, one_row
from tokenweir.history.store import (
    checksums,
    end_predecessor,
    open_journal,
    open_usage,
    prepare,
)
from tokenweir.records.journal import QuotaFigures

pytestmark = pytest.mark.clickhouse

USAGE, JOURNAL = Place("usage", 0), Place("journal", 0)
SINCE, UNTIL = instant_of(NOON_MS), instant_of(NOON_MS + 3_600_000)
DOCS = Path(__file__).parents[2] / "docs" / "clickhouse.md"
TODAY = QuotaFigures(
    tenant=["acme", "acme"],
    user=["", "ann"],
    window_id=["day/2026-05-29", "minute/2026-05-29T12:00+00:00"],
    tokens=[40_000, 500],
    spent=[1_200, 70],
    given=[2_000, 90],
)


@pytest.fixture
def client(database: str) -> Iterator[Client]:
    connected = connect(database)
    prepare(connected)
    yield connected
    connected.close()


def take(client: Client, lane: Lane, records: Sequence[Record], tables: int = 9) -> None:
    """Insert what the records make; `tables` stops a batch short, as a crash does."""
    lane.receive(records, 0.0)
    while lane.waiting:
        for block in lane.next_batch(lambda entries: checksums(client, entries)).blocks[:tables]:
            insert(client, lane.place, block)


def usage(client: Client, *records: Record, tables: int = 9) -> None:
    take(client, open_usage(client, USAGE, 1), records, tables)


def journal(client: Client, *records: Record, tables: int = 9) -> None:
    take(client, open_journal(client, JOURNAL), records, tables)


def rows(client: Client, sql: str) -> list[Any]:
    return list(client.query(sql).result_rows)


def test_tables_are_created_once_and_found_again(client: Client) -> None:
    assert prepare(client) == prepare(client)
    assert len(rows(client, "SHOW TABLES")) == 7


def test_a_table_of_another_shape_is_one_clear_line(client: Client) -> None:
    client.command("ALTER TABLE audit RENAME COLUMN why TO reason")
    client.command("ALTER TABLE grants MODIFY COLUMN debt Int32")
    with pytest.raises(BadInput) as caught:
        prepare(client)
    assert "table audit: column why is missing, String is needed" in str(caught.value)
    assert "table grants: column debt is Int32, Int64 is needed" in str(caught.value)


def test_nobody_there_is_one_clear_line() -> None:
    with pytest.raises(Unavailable, match="python -m streams clickhouse"):
        connect("http://127.0.0.1:9")


def test_every_value_comes_back_as_it_went_in(client: Client) -> None:
    row = Increment("ид-1", "acme", "ann'\\", "refused", 5, 7, 11, 3, 90, True, True, 250, "quota")
    usage(client, record(0, report(1, row)))
    found = client.query("SELECT * FROM usage")
    values = dict(zip(found.column_names, found.result_rows[0], strict=True))
    assert values["event_time"] == datetime(2026, 5, 29, 11, 59, 59, 750_000, tzinfo=UTC)
    assert (values["logical_request_id"], values["user"]) == ("ид-1", "ann'\\")
    assert (values["estimated"], values["error"], values["attempt"]) == (True, True, 3)
    assert (values["reason"], values["refused_tokens"]) == ("quota", 90)


def test_reading_goes_on_behind_the_newest_record(client: Client) -> None:
    """H2."""
    assert open_usage(client, USAGE, 1).begins == 0
    usage(client, *(record(n, report(n + 1, Increment())) for n in range(3)))
    assert open_usage(client, USAGE, 1).begins == 3
    assert open_usage(client, Place("usage", 1), 1).begins == 0


def test_one_insert_is_one_part(client: Client) -> None:
    """H1: so it is there whole or not at all; also far above the engine's usual block."""
    many = [Increment(f"r{n}") for n in range(4_000)]
    usage(client, *(record(n, report(n + 1, *many)) for n in range(20)))
    parts = rows(
        client,
        "SELECT rows FROM system.parts WHERE table = 'usage' AND database = currentDatabase()"
        " AND level = 0",
    )
    inserts = 80_000 / parts[0][0]
    assert sum(count for (count,) in parts) == 80_000
    assert len(parts) <= inserts + 1


def test_a_crash_between_two_tables_of_a_batch_neither_loses_nor_doubles(client: Client) -> None:
    """H1, H2; field notes 23 and 24."""
    wrong = report(3, Increment("r3", out=5), totals=report(1).totals)
    records = [record(0, report(1, Increment(out=3))), record(1, report(2)), record(2, wrong)]
    for tables in (1, 2, 3):
        usage(client, *records[open_usage(client, USAGE, 1).begins :], tables=tables)
    assert rows(client, "SELECT count(), sum(tokens_out) FROM usage") == [(2, 8)]
    assert rows(client, "SELECT count() FROM audit") == [(1,)]
    assert rows(client, "SELECT groupArray(offset) FROM records") == [([0, 1, 2],)]


def test_a_crash_between_grants_and_decisions_neither_loses_nor_doubles(client: Client) -> None:
    records = [record(n, decision_entry(NOON_MS + n * 1000), place=JOURNAL) for n in range(3)]
    for tables in (1, 2):
        journal(client, *records, tables=tables)
    assert rows(client, "SELECT count(), uniqExact(at) FROM grants") == [(3, 3)]
    assert rows(client, "SELECT count() FROM decisions") == [(3,)]


def test_a_decisions_quotas_are_there_once_after_crashes_and_repeats(client: Client) -> None:
    """H1, H2, S6."""
    entries = [decision_entry(NOON_MS + n * 1000, quotas=TODAY) for n in range(2)]
    records = [record(n, entry, place=JOURNAL) for n, entry in enumerate(entries)]
    for tables in (1, 2, 3):
        journal(client, *records, tables=tables)
    journal(client, *(record(n + 10, entry, place=JOURNAL) for n, entry in enumerate(entries)))
    asked = (
        "SELECT pool, tenant, user, window_id, tokens, spent, given FROM quotas"
        " WHERE at = toDateTime64('2026-05-29 12:00:01', 3, 'UTC') ORDER BY index"
    )
    assert rows(client, "SELECT count(), uniqExact(at, index) FROM quotas") == [(4, 4)]
    assert rows(client, asked) == [
        (POOL, "acme", "", "day/2026-05-29", 40_000, 1_200, 2_000),
        (POOL, "acme", "ann", "minute/2026-05-29T12:00+00:00", 500, 70, 90),
    ]


def test_the_query_in_the_docs_tells_what_a_window_came_to(client: Client) -> None:
    for n, spent in enumerate(([5, 1], [1_200, 70])):
        quotas = replace(TODAY, spent=spent)
        journal(client, record(n, decision_entry(NOON_MS + n * 1000, quotas=quotas), place=JOURNAL))
    example = DOCS.read_text(encoding="utf-8").partition("```sql\n")[2].partition("```")[0]
    found = rows(client, example.replace("'chat'", f"'{POOL}'"))
    assert sorted(found)[0] == ("acme", "", "day/2026-05-29", 1_200, 40_000)


def test_a_database_without_the_table_of_quotas_gets_it_and_loses_nothing(client: Client) -> None:
    """As an earlier version leaves it, stopped between grants and decisions of offset 2."""
    records = [
        record(n, decision_entry(NOON_MS + n * 1000, quotas=TODAY), place=JOURNAL) for n in range(4)
    ]
    journal(client, *records[:2])
    journal(client, records[2], tables=1)
    client.command("DROP TABLE quotas")
    prepare(client)
    assert open_journal(client, JOURNAL).begins == 2
    journal(client, *records)
    for table in ("grants", "decisions"):
        assert rows(client, f"SELECT offset FROM {table} ORDER BY offset") == [
            (0,),
            (1,),
            (2,),
            (3,),
        ]
    assert rows(client, "SELECT offset, count() FROM quotas GROUP BY offset ORDER BY offset") == [
        (2, 2),
        (3, 2),
    ]


def test_a_repeat_is_known_after_a_restart(client: Client) -> None:
    """R1: the last sequences stand in `records`, those of empty reports too."""
    usage(client, record(0, report(1, Increment(out=3))), record(1, report(2)))
    usage(client, record(2, report(2, Increment(out=9))), record(3, report(1, Increment(out=9))))
    usage(client, record(4, report(3, Increment(out=4))))
    assert rows(client, "SELECT sum(tokens_out) FROM usage") == [(7,)]
    assert [
        outcome for (outcome,) in rows(client, "SELECT outcome FROM records ORDER BY offset")
    ] == [
        "taken",
        "taken",
        "repeat",
        "repeat",
        "taken",
    ]


def test_decisions_made_again_after_any_time_are_dropped_and_a_different_one_is_an_alarm(
    client: Client,
) -> None:
    """S6: a control worker that lost its state decides again from the log's start."""
    entries = [decision_entry(NOON_MS + n * 1000) for n in range(50)]
    entries += [audit_entry(NOON_MS + 49_000, n) for n in range(2)]
    journal(client, *(record(n, entry, place=JOURNAL) for n, entry in enumerate(entries)))
    entries[7] = decision_entry(NOON_MS + 7000, tier="hard_degrade")
    entries[51] = audit_entry(NOON_MS + 49_000, 1, why="another")
    again = [record(100 + n, entry, place=JOURNAL) for n, entry in enumerate(entries)]
    journal(client, *again, record(200, decision_entry(NOON_MS + 60_000), place=JOURNAL))
    assert rows(client, "SELECT count(), uniqExact(id) FROM decisions") == [(51, 51)]
    alarms = rows(client, "SELECT subject FROM audit WHERE kind = 'alarm' ORDER BY offset")
    assert alarms == [(f"{POOL}@{NOON_MS + 7000}",), (f"{POOL}@{NOON_MS + 49_000}/audit/1",)]
    assert rows(client, "SELECT count() FROM audit WHERE kind = 'tier'") == [(2,)]


def test_a_predecessors_insert_is_ended_before_the_tables_are_asked(
    client: Client, database: str
) -> None:
    """H2."""
    other, failures = connect(database), []

    def insert_for_long() -> None:
        try:
            other.command(
                "INSERT INTO records (topic, partition, offset, append_time)"
                " SELECT 'usage', 0, number, now() FROM numbers(100)"
                " WHERE NOT ignore(sleepEachRow(0.1))",
                settings={
                    "log_comment": comment_of(USAGE),
                    "max_block_size": 1,
                    "function_sleep_max_microseconds_per_block": 10**9,
                },
            )
        except Exception as error:  # whatever a killed query becomes
            failures.append(error)

    predecessor = threading.Thread(target=insert_for_long)
    predecessor.start()
    asked = "SELECT count() FROM system.processes WHERE Settings['log_comment'] = {it:String}"
    while not client.query(asked, parameters={"it": comment_of(USAGE)}).result_rows[0][0]:
        assert predecessor.is_alive()
    end_predecessor(client, USAGE)
    held = rows(client, "SELECT count() FROM records")
    predecessor.join(20)
    assert failures
    assert rows(client, "SELECT count() FROM records") == held
    other.close()


def test_the_same_log_in_a_fresh_table_gives_the_same_totals(client: Client, database: str) -> None:
    """Field note 36: in other batches and on another day; times come from the log."""
    records = [
        record(
            n,
            report(n + 1, Increment(f"r{n}", f"t{n % 3}", uncached=n, out=7, age_ms=n * 40)),
            append_ms=NOON_MS + n * 9_000_000,  # 75 hours
        )
        for n in range(30)
    ]
    totals = (
        "SELECT toString(groupArray((tenant, hour, tokens))) FROM (SELECT tenant,"
        " toStartOfHour(event_time) AS hour, sum(tokens_uncached + tokens_out) AS tokens"
        " FROM usage GROUP BY tenant, hour ORDER BY tenant, hour)"
    )
    usage(client, *records)
    first = rows(client, totals)
    for table in ("usage", "records", "audit"):
        client.command(f"TRUNCATE TABLE {table}")
    for one in records:
        usage(client, one)
    assert rows(client, totals) == first


def test_a_year_of_days_leaves_few_parts(client: Client) -> None:
    """Field note 80: no error 252, less than 300 parts a table for 100 days in one stream."""
    records = [
        record(n, report(n + 1, Increment()), append_ms=NOON_MS + n // 2 * DAY_MS)
        for n in range(200)
    ]
    usage(client, *records)
    parts = rows(
        client,
        "SELECT table, count() FROM system.parts WHERE active AND database = currentDatabase()"
        " GROUP BY table ORDER BY table",
    )
    assert parts == [("records", 100), ("usage", 100)]


def test_money_is_stored_exactly(client: Client) -> None:
    """Field note 76: no float anywhere."""
    when, amount = Column("append_time", "DateTime64(3, 'UTC')"), Column("amount", MONEY)
    bill = Table("bill", (when, amount), (), "")
    client.command(
        f"CREATE TABLE bill (append_time DateTime64(3, 'UTC'), amount {MONEY})"
        " ENGINE = MergeTree ORDER BY ()"
    )
    amounts = ["75.57", "75.49", "40.16", "1.3e-10", "-12345678901234567890.123456789012345678"]
    block = Block(bill)
    for text in amounts:
        block.add(record(0, None), one_row(bill, amount=money(text)))
    insert(client, USAGE, block)
    stored = sorted(amount for (amount,) in rows(client, "SELECT amount FROM bill"))
    assert stored == sorted(Decimal(text) for text in amounts)
    assert rows(client, "SELECT sum(amount) FROM bill WHERE amount > 1") == [(Decimal("191.22"),)]


def test_answers_do_not_depend_on_the_time_zone_of_server_or_session(client: Client) -> None:
    """Field note 82."""
    usage(client, record(0, report(1, Increment(out=3)), append_ms=NOON_MS + 1))
    seoul = {"session_timezone": "Asia/Seoul"}
    for settings in ({}, seoul):
        text, given = UsageByTenant(POOL, SINCE, UNTIL).sql()
        assert client.query(text, parameters=given, settings=settings).row_count == 1
    instant = client.query("SELECT event_time FROM usage", settings=seoul).result_rows[0][0]
    assert instant == instant_of(NOON_MS + 1)
    assert instant.utcoffset() == timedelta(0)


def test_a_request_with_two_failed_attempts_is_one_request_and_three_attempts(
    client: Client,
) -> None:
    """Field note 88."""
    usage(
        client,
        record(
            0,
            report(
                1,
                Increment("call", attempt=1, error=True, uncached=10),
                Increment("call", attempt=2, error=True, uncached=10, estimated=True),
                Increment("call", attempt=3, status="part", uncached=10, cached=5),
                Increment("call", attempt=3, out=7),
                Increment("other", tenant="zeta", status="refused", refused_tokens=40),
            ),
        ),
    )
    acme, zeta = read(client, UsageByTenant(POOL, SINCE, UNTIL))
    assert (acme.requests, acme.attempts, acme.admitted, acme.errors) == (1, 3, 3, 2)
    assert (acme.input_tokens, acme.cached_tokens, acme.output_tokens) == (35, 5, 7)
    assert acme.estimated == 1
    assert (zeta.requests, zeta.admitted, zeta.refused, zeta.refused_tokens) == (1, 0, 1, 40)
    assert read(client, TotalsOf(POOL, "usage")) == [acme, zeta]


def test_usage_is_booked_to_the_time_when_it_happened(client: Client) -> None:
    """Field note 34: it happened 10 s before midnight and was appended 20 s after."""
    midnight = NOON_MS + 12 * 3_600_000
    usage(client, record(0, report(1, Increment(age_ms=30_000)), append_ms=midnight + 20_000))
    day = timedelta(days=1)
    begin = instant_of(midnight)
    assert len(read(client, UsageByTenant(POOL, begin - day, begin))) == 1
    assert read(client, UsageByTenant(POOL, begin, begin + day)) == []


def test_refusals_are_counted_by_reason(client: Client) -> None:
    refused = [
        Increment(f"r{n}", status="refused", refused_tokens=10, reason="quota" if n else "lease")
        for n in range(3)
    ]
    usage(client, record(0, report(1, *refused)))
    found = read(client, RefusalsByReason(POOL, SINCE, UNTIL + timedelta(hours=1)))
    assert [(row.reason, row.refused, row.refused_tokens) for row in found] == [
        ("lease", 1, 10),
        ("quota", 2, 20),
    ]


def test_time_in_tiers_counts_from_decision_to_decision(client: Client) -> None:
    #  -1 s      1 s          4 s            10 s
    #  normal ── soft ─────── normal ──────── until
    tiers = ((-1000, "normal"), (1000, "soft_degrade"), (4000, "normal"))
    journal(
        client,
        *(
            record(n, decision_entry(NOON_MS + ms, tier=tier), place=JOURNAL)  # type: ignore[arg-type]
            for n, (ms, tier) in enumerate(tiers)
        ),
    )
    found = read(client, TierTime(POOL, SINCE, SINCE + timedelta(seconds=10)))
    assert {row.tier: row.ms for row in found} == {"normal": 7000, "soft_degrade": 3000}


def test_decisions_figures_gateways_and_audit_are_there_to_ask(client: Client) -> None:
    journal(
        client,
        record(0, decision_entry(NOON_MS, tenants=["acme", "zeta"]), place=JOURNAL),
        record(1, audit_entry(NOON_MS, 0), place=JOURNAL),
        record(2, decision_entry(NOON_MS + 1000), place=JOURNAL),
    )
    decisions = read(client, DecisionsOf(POOL, SINCE, UNTIL))
    assert [decision.id for decision in decisions] == [
        f"{POOL}@{NOON_MS}",
        f"{POOL}@{NOON_MS + 1000}",
    ]
    assert decisions[0].at == SINCE
    figures = read(client, FiguresAt(POOL, SINCE + timedelta(milliseconds=999)))
    assert [(row.tenant, row.grant) for row in figures] == [("acme", 7), ("zeta", 7)]
    change = read(client, AuditOf(POOL, SINCE, UNTIL))[0]
    assert (change.kind, change.lost, change.gained) == ("tier", ["spot-1"], ["acme"])
    assert rows(client, "SELECT gateway, seen, leased FROM gateways ORDER BY at LIMIT 1") == [
        ("gw-1", instant_of(NOON_MS - 200), 400_000)
    ]


def test_progress_is_known_record_by_record(client: Client) -> None:
    usage(client, record(0, None), record(1, report(1)), record(2, b"random"))
    assert [(row.partition, row.next_offset) for row in read(client, ReadSoFar("usage"))] == [
        (0, 3)
    ]
    assert rows(client, "SELECT outcome FROM records ORDER BY offset") == [
        ("bad",),
        ("taken",),
        ("bad",),
    ]


def test_an_erased_tenant_is_no_rows_and_a_wrong_query_is_an_error(client: Client) -> None:
    """Field note 84: the two are told apart."""
    assert read(client, TotalsOf("nobody", "usage")) == []
    client.command("DROP TABLE usage")
    with pytest.raises(Unavailable, match="usage"):
        read(client, TotalsOf("nobody", "usage"))


def test_rows_of_two_days_in_one_insert_are_refused(client: Client) -> None:
    """H1: the engine itself is told to take one table partition only."""
    lane = open_usage(client, USAGE, 1)
    lane.receive([record(0, report(1, Increment()))], 0.0)
    block = lane.next_batch(lambda _: {}).blocks[0]
    for name, column in block.columns.items():
        column.append(NOON_MS + DAY_MS if name == "append_time" else column[0])
    with pytest.raises(Unavailable):
        insert(client, USAGE, block)
    assert rows(client, "SELECT count() FROM usage") == [(0,)]


def test_one_row_names_nested_columns_with_a_dot() -> None:
    assert one_row(Table("t", (), (), ""), gateway__name=["a"]).same == {"gateway.name": ["a"]}
