"""What a record of a log becomes."""

from dataclasses import replace

import pytest

from tests import pools
from tests.pools import START, pool_with, spec, step, tenant
from tests.unit.history.made import (
    NOON_MS,
    POOL,
    Increment,
    audit_entry,
    decision_entry,
    record,
    report,
)
from tokenweir.history.journal import Entry, Seen, entry_of, fold_journal
from tokenweir.history.lane import BATCH_RECORDS, Batch, JournalReader, Lane, UsageReader
from tokenweir.history.letters import letter
from tokenweir.history.rows import DAY_MS, Block, Place, Record
from tokenweir.history.sequences import Sequences
from tokenweir.history.tables import OF_JOURNAL, OF_USAGE
from tokenweir.records.journal import DeadLetter, DecisionEntry, QuotaFigures
from tokenweir.wire import encode

NOTHING = dict.fromkeys(("usage", "records", "audit", "grants", "quotas", "decisions"), -1)


def usage_lane(held: dict[str, int] | None = None) -> Lane:
    return Lane(Place("usage", 0), UsageReader(Sequences(), 1), NOTHING | (held or {}))


def journal_lane(held: dict[str, int] | None = None) -> Lane:
    return Lane(Place("journal", 0), JournalReader(Seen()), NOTHING | (held or {}))


def batch_of(lane: Lane, *records: Record, known: dict[str, int] | None = None) -> Batch:
    lane.receive(records, 0.0)
    return lane.next_batch(lambda entries: known or {})


def block(batch: Batch, table: str) -> dict[str, list[object]]:
    return next((b.columns for b in batch.blocks if b.table.name == table), {})


def test_a_report_becomes_rows_and_one_record() -> None:
    batch = batch_of(usage_lane(), record(0, report(1, Increment(out=3), Increment("r2", out=4))))
    assert block(batch, "usage")["tokens_out"] == [3, 4]
    assert block(batch, "records")["outcome"] == ["taken"]
    assert block(batch, "records")["said_tokens_out"] == [7]
    assert batch.next_offset == 1


def test_a_report_delivered_five_times_counts_once() -> None:
    """Field note 19, R1."""
    same = report(1, Increment(out=3))
    batch = batch_of(usage_lane(), *(record(n, replace(same, age_ms=n)) for n in range(5)))
    assert block(batch, "usage")["tokens_out"] == [3]
    assert block(batch, "records")["outcome"] == ["taken"] + ["repeat"] * 4


def test_a_report_that_does_not_add_up_is_recorded_with_both_sums() -> None:
    """Field note 13: the rows are what happened, the totals are what was said."""
    whole = report(7, Increment(uncached=9000, out=300))
    wrong = replace(whole, totals=replace(whole.totals, tokens_uncached=[0]))
    batch = batch_of(usage_lane(), record(0, wrong))
    assert block(batch, "usage")["tokens_uncached"] == [9000]
    assert block(batch, "records")["outcome"] == ["unbalanced"]
    audit = block(batch, "audit")
    assert audit["kind"] == ["unbalanced_report"]
    assert audit["before"] == ["requests 1, tokens_out 300"]
    assert audit["after"] == ["requests 1, tokens_uncached 9000, tokens_out 300"]


def test_requests_that_cannot_be_read_are_dead_lettered_and_their_totals_kept() -> None:
    broken = report(1, Increment(out=3), requests=b"\x00\x01random")
    batch = batch_of(usage_lane(), record(41, broken))
    assert [(sent.offset, sent.reader) for sent in batch.letters] == [(41, "history")]
    assert "usage" not in {b.table.name for b in batch.blocks}
    assert block(batch, "records")["outcome"] == ["unreadable"]
    assert block(batch, "records")["said_tokens_out"] == [3]
    assert block(batch, "audit")["kind"] == ["unreadable_requests"]


@pytest.mark.parametrize("bad", [None, b"", b"\x00random bytes\xff", b"\xc3\x01unknown!record"])
def test_a_bad_record_at_41_does_not_stop_the_one_at_42(bad: bytes | None) -> None:
    """Field note 65; the control plane sends the letter."""
    batch = batch_of(usage_lane(), record(41, bad), record(42, report(1, Increment(out=3))))
    assert block(batch, "records")["outcome"] == ["bad", "taken"]
    assert block(batch, "usage")["offset"] == [42]
    assert batch.letters == ()


def test_records_that_the_control_plane_refuses_are_refused_here_too() -> None:
    wrong_key = replace(record(0, report(1, Increment())), key=b"pool-b")
    no_sequence = record(1, report(0, Increment()))
    decision = record(2, decision_entry(NOON_MS))
    batch = batch_of(usage_lane(), wrong_key, no_sequence, decision)
    assert block(batch, "records")["outcome"] == ["bad"] * 3
    assert "usage" not in {b.table.name for b in batch.blocks}


def test_what_a_table_holds_is_not_inserted_again() -> None:
    """A crash between the inserts of one batch: usage and audit are ahead of records."""
    lane = usage_lane({"usage": 5, "audit": 5, "records": 3})
    assert lane.begins == 4
    records = [record(n, report(n + 1, Increment(out=n))) for n in range(4, 8)]
    batch = batch_of(lane, *records)
    assert block(batch, "usage")["offset"] == [6, 7]
    assert block(batch, "records")["offset"] == [4, 5, 6, 7]


def test_a_letter_is_not_sent_again_once_its_row_is_in_the_audit() -> None:
    lane = journal_lane({"audit": 3, "decisions": 1})
    batch = batch_of(lane, record(2, None), record(3, b"x"), record(4, b"y"))
    assert [sent.offset for sent in batch.letters] == [4]


def test_records_below_the_expected_offset_are_not_taken() -> None:
    lane = usage_lane({"records": 9, "usage": 9, "audit": 9})
    lane.receive([record(9, report(1)), record(10, report(2))], 0.0)
    assert [waiting.offset for waiting in lane.waiting] == [10]


def test_a_batch_holds_one_day_of_append() -> None:
    """Field note 80: 400 days in one stream are 400 inserts, each of one table partition."""
    records = [
        record(n, report(n + 1, Increment()), append_ms=NOON_MS + (n // 2) * DAY_MS)
        for n in range(800)
    ]
    lane = usage_lane()
    lane.receive(records, 0.0)
    sizes = []
    while lane.waiting:
        sizes.append(len(block(lane.next_batch(lambda _: {}), "usage")["offset"]))
    assert sizes == [2] * 400


def test_a_batch_is_bounded_and_nothing_is_left_out() -> None:
    lane = usage_lane()
    lane.receive([record(n, report(n + 1)) for n in range(BATCH_RECORDS + 5)], 0.0)
    assert lane.due(0.0, 60.0)
    assert lane.next_batch(lambda _: {}).next_offset == BATCH_RECORDS
    assert lane.next_batch(lambda _: {}).next_offset == BATCH_RECORDS + 5
    assert not lane.due(1e9, 0.0)


def test_a_record_waits_no_longer_than_it_may() -> None:
    lane = usage_lane()
    lane.receive([record(0, report(1))], 100.0)
    assert not lane.due(100.4, 0.5)
    assert lane.due(100.5, 0.5)


def test_a_decision_becomes_one_row_and_a_row_a_tenant() -> None:
    entry = decision_entry(NOON_MS, tenants=["acme", "zeta"])
    batch = batch_of(journal_lane(), record(0, entry))
    assert block(batch, "decisions")["id"] == [f"{POOL}@{NOON_MS}"]
    assert block(batch, "decisions")["gateway.name"] == [["gw-1"]]
    assert block(batch, "grants")["tenant"] == ["acme", "zeta"]
    assert [b.table.name for b in batch.blocks] == ["grants", "decisions"]


@pytest.mark.parametrize("sequences", [None, 100])
def test_what_the_core_decides_is_stored_with_and_without_a_limit_of_sequences(
    sequences: int | None,
) -> None:
    pool = pool_with(spec(tenant("acme", "guaranteed", 4_000), sequences=sequences))
    step(pool, pools.report("gw-1", 1, {"acme": 300}), START)
    decided = step(pool, pools.report("gw-1", 2), START + 1000)
    assert decided is not None
    taken = record(0, decided.entries[0], pool="chat")
    batch = batch_of(journal_lane(), taken)
    assert batch.letters == ()
    assert block(batch, "decisions")["id"] == [decided.decision.id]
    assert block(batch, "grants")["tenant"] == ["acme"]


def test_a_column_that_may_lack_is_left_out_whole_or_not_at_all() -> None:
    entry = decision_entry(NOON_MS, tenants=["acme", "zeta"])
    assert isinstance(entry.body, DecisionEntry)
    half = replace(entry.body, tenants=replace(entry.body.tenants, borrowed=[1]))
    batch = batch_of(journal_lane(), record(0, replace(entry, body=half)))
    assert batch.letters[0].reason.startswith("TenantFigures: columns of different lengths")


def test_a_decision_whose_quotas_differ_in_length_is_a_bad_record() -> None:
    entry = decision_entry(NOON_MS, quotas=QuotaFigures(tenant=["acme", "zeta"], user=[""]))
    batch = batch_of(journal_lane(), record(0, entry))
    assert [b.table.name for b in batch.blocks] == ["audit"]
    assert batch.letters[0].reason.startswith("QuotaFigures: columns of different lengths")


def test_a_decision_made_again_is_dropped() -> None:
    """S6: after a crash of the control worker the same entries come again."""
    first, audit = decision_entry(NOON_MS), audit_entry(NOON_MS, 0)
    batch = batch_of(
        journal_lane(), *(record(n, entry) for n, entry in enumerate((first, audit, first, audit)))
    )
    assert block(batch, "decisions")["offset"] == [0]
    assert block(batch, "audit")["offset"] == [1]


def test_a_decision_made_again_with_other_bytes_is_an_alarm() -> None:
    """S6: the first one stands."""
    batch = batch_of(
        journal_lane(),
        record(0, decision_entry(NOON_MS)),
        record(1, decision_entry(NOON_MS, tier="hard_degrade")),
    )
    assert block(batch, "decisions")["tier"] == ["normal"]
    assert block(batch, "audit")["kind"] == ["alarm"]
    assert block(batch, "audit")["subject"] == [f"{POOL}@{NOON_MS}"]


def test_only_entries_at_or_below_the_newest_are_looked_up() -> None:
    seen = Seen({("decisions", POOL): NOON_MS})
    older, newer = (entry_of(record(n, decision_entry(NOON_MS + n))) for n in (0, 1))
    assert isinstance(older, Entry)
    assert isinstance(newer, Entry)
    assert seen.suspects(older)
    assert not seen.suspects(newer)


def test_a_repeat_that_only_the_tables_know_is_dropped() -> None:
    entry = record(9, decision_entry(NOON_MS))
    read = entry_of(entry)
    assert isinstance(read, Entry)
    lane = Lane(
        Place("journal", 0), JournalReader(Seen({("decisions", POOL): NOON_MS + 5000})), NOTHING
    )
    batch = batch_of(lane, entry, known={read.entry.id: read.checksum})
    assert batch.blocks == ()
    assert batch.next_offset == 10


def test_an_entry_that_was_skipped_before_is_still_taken() -> None:
    lane = Lane(
        Place("journal", 0), JournalReader(Seen({("decisions", POOL): NOON_MS + 5000})), NOTHING
    )
    batch = batch_of(lane, record(9, decision_entry(NOON_MS)))
    assert block(batch, "decisions")["offset"] == [9]


@pytest.mark.parametrize("bad", [None, b"random", encode(report(1))])
def test_a_bad_journal_record_is_dead_lettered_and_the_next_one_taken(bad: bytes | None) -> None:
    batch = batch_of(journal_lane(), record(41, bad), record(42, decision_entry(NOON_MS)))
    assert [sent.offset for sent in batch.letters] == [41]
    assert block(batch, "audit")["kind"] == ["bad_record"]
    assert block(batch, "decisions")["offset"] == [42]


def test_figures_whose_columns_do_not_fit_are_a_bad_record() -> None:
    entry = decision_entry(NOON_MS)
    assert isinstance(entry.body, DecisionEntry)
    gateways = replace(entry.body.gateways, missing=[])
    broken = replace(entry, body=replace(entry.body, gateways=gateways))
    batch = batch_of(journal_lane(), record(0, broken), record(1, decision_entry(NOON_MS + 1)))
    assert "GatewayFigures" in str(block(batch, "audit")["why"][0])
    assert block(batch, "decisions")["offset"] == [1]


def test_a_value_too_large_for_a_letter_stays_where_it_is() -> None:
    found = letter(record(41, bytes(4 << 20)), "bad")
    assert found.value is None
    assert (found.offset, found.reason) == (41, "bad (the value is too large for a letter)")


def test_a_letter_carries_the_record_and_its_place() -> None:
    effects = list(fold_journal(Seen(), entry_of(record(41, b"random", place=Place("j", 3)))))
    sent = effects[0]
    assert isinstance(sent, DeadLetter)
    assert (sent.topic, sent.partition, sent.offset, sent.value) == ("j", 3, 41, b"random")


def test_tables_are_filled_in_an_order_that_ends_with_where_reading_goes_on() -> None:
    assert [table.name for table in OF_USAGE] == ["usage", "audit", "records"]
    assert [table.name for table in OF_JOURNAL] == ["grants", "quotas", "audit", "decisions"]
    assert all(len(Block(table)) == 0 for table in (*OF_USAGE, *OF_JOURNAL))
