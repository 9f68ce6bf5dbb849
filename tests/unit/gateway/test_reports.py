from collections import Counter

from tests.unit.gateway.made import ask, give, obeying, settle
from tokenweir.gateway import ledger, streams
from tokenweir.gateway.pool import PoolGate
from tokenweir.records.usage import RequestsBlock, UsageReport
from tokenweir.wire import decode, decode_as

LEASE = ("gua", 1000, 1000, 100)


def cut(gate: PoolGate, now_ms: int) -> UsageReport:
    (only,) = gate.cut(now_ms)
    return decode_as(UsageReport, only.aged(now_ms))


def block(report: UsageReport) -> RequestsBlock:
    return decode_as(RequestsBlock, report.requests)


def test_an_empty_report_still_goes_and_tells_what_is_obeyed() -> None:
    gate = obeying(LEASE)
    first, second = cut(gate, 500), cut(gate, 1000)
    assert (first.sequence, second.sequence) == (1, 2)
    assert first.applied == gate.leases.at_ms == 1_000_000
    assert (first.totals.tenant, first.requests) == ([], b"")


def test_totals_and_rows_say_the_same() -> None:
    gate = obeying(LEASE)
    for used in (100, 200):
        request = ask(gate, 1000, "gua", 150, user="bo")
        settle(gate, request, 1100, used)
    ledger.leave(gate, ask(gate, 1200, "gua", 50, user="cy"), 1250, "done", True, "ValueError")
    ask(gate, 1300, "spo", 70, user="di")
    report = cut(gate, 1500)
    totals, rows = report.totals, block(report)
    assert [totals.names[place] for place in totals.tenant] == ["gua", "gua", "spo"]
    assert [totals.names[place] for place in totals.user] == ["bo", "cy", "di"]
    assert totals.age_ms == [400, 250, 200]
    assert totals.requests == [2, 1, 0]
    assert totals.errors == [0, 1, 0]
    assert totals.tokens_uncached == [300, 50, 0]
    assert (totals.refused, totals.refused_tokens) == ([0, 0, 1], [0, 0, 70])
    assert totals.in_flight == []
    assert rows.status == ["done", "done", "done", "refused"]
    assert rows.estimated == [False, False, True, False]
    assert rows.names[rows.reason[3]] == "no_lease"
    assert rows.decision == [1_000_000] * 4


def test_gauges_are_whole_and_stand_as_they_are_at_the_cut() -> None:
    gate = obeying(LEASE)
    running = ask(gate, 1000, "gua", 1500, kv_bytes=7, sequences=2)
    ask(gate, 1000, "gua", 40)
    for _ in range(2):
        totals = cut(gate, 1100).totals
        assert (totals.in_flight, totals.sequences, totals.kv_bytes) == ([1], [2], [7])
        assert (totals.held_tokens, totals.queued, totals.queued_tokens) == ([1500], [1], [40])
    settle(gate, running, 1200, 10)
    gate.serve(1200)
    totals = cut(gate, 1300).totals
    assert (totals.in_flight, totals.held_tokens, totals.queued) == ([1], [40], [])


def test_a_stream_is_reported_as_it_is_produced() -> None:
    gate = obeying(LEASE)
    request = ask(gate, 1000, "gua", 100)
    streams.produce(gate, request, 0, 0, 20)
    first = cut(gate, 1500)
    assert (block(first).status, block(first).tokens_out) == (["part"], [20])
    assert (first.totals.requests, first.totals.tokens_out) == ([], [20])
    assert first.totals.held_tokens == [80]
    streams.produce(gate, request, 0, 0, 30)
    ledger.settle(gate, request, 1700, 45, 5, 60)
    second = cut(gate, 2000)
    assert (block(second).status, block(second).tokens_out) == (["done"], [40])
    assert (block(second).tokens_uncached, block(second).tokens_cached) == ([45], [5])
    assert second.totals.requests == [1]
    assert block(first).id == block(second).id


def test_a_stream_that_outruns_its_estimate_is_charged_as_it_goes() -> None:
    gate = obeying(LEASE)
    request = ask(gate, 1000, "gua", 100)
    streams.produce(gate, request, 0, 0, 400)
    cut(gate, 1000)
    assert gate.subjects["gua"].bucket.level == 600_000


def test_what_was_reported_is_not_taken_back() -> None:
    gate = obeying(LEASE)
    request = ask(gate, 1000, "gua", 100)
    streams.produce(gate, request, 0, 0, 30)
    cut(gate, 1500)
    ledger.settle(gate, request, 1600, 10, 0, 20)
    assert block(cut(gate, 2000)).tokens_out == []
    assert gate.subjects["gua"].spent == 40


def test_a_wait_is_told_in_the_report_of_its_admission_and_once() -> None:
    gate = obeying(LEASE)
    ask(gate, 1000, "gua", 1500)
    request = ask(gate, 1000, "gua", 10)
    gate.serve(1501)
    assert cut(gate, 1600).totals.wait_ms == [501]
    settle(gate, request, 1700, 10)
    assert cut(gate, 2000).totals.wait_ms == []


def test_a_report_above_its_size_is_split_and_each_part_is_right() -> None:
    gate = PoolGate("chat", "edge", largest_report=4000)
    gate.acknowledged(1_000_000, 0, 0)
    give(gate, 0, ("gua", 10**9, 10**9, 0))
    for user in range(300):
        request = ask(gate, 1000, "gua", 5, user=f"user-{user}")
        if user % 2:
            settle(gate, request, 1001, user)
    cuts = gate.cut(1500, closing=True)
    reports = [decode_as(UsageReport, part.aged(1500)) for part in cuts]
    assert len(reports) > 2
    assert [report.sequence for report in reports] == list(range(1, len(reports) + 1))
    assert [report.more for report in reports] == [True] * (len(reports) - 1) + [False]
    assert [report.closing for report in reports] == [False] * (len(reports) - 1) + [True]
    in_flight: Counter[str] = Counter()
    for part, report in zip(cuts, reports, strict=True):
        assert len(part.aged(1500)) <= 4000
        said = sum(report.totals.tokens_uncached)
        assert said == (sum(block(report).tokens_uncached) if report.requests else 0)
        gauges = report.totals.in_flight or [0] * len(report.totals.user)
        for user, count in zip(report.totals.user, gauges, strict=True):
            in_flight[report.totals.names[user]] += count
    assert sum(sum(report.totals.tokens_uncached) for report in reports) == 22_500
    assert {count for user, count in in_flight.items() if int(user[5:]) % 2 == 0} == {1}


def test_only_the_age_changes_when_a_report_is_sent_late() -> None:
    gate = obeying(LEASE)
    settle(gate, ask(gate, 1000, "gua", 5), 1200, 5)
    (part,) = gate.cut(1500)
    soon, late = decode(part.aged(1510)), decode(part.aged(61_500))
    assert (soon.age_ms, late.age_ms) == (10, 60_000)
    assert soon.totals == late.totals
    assert soon.totals.age_ms == [300]


def test_names_that_are_no_text_do_not_take_the_report_with_them() -> None:
    gate = obeying(LEASE)
    settle(gate, ask(gate, 1000, "gua", 5, user="\ud800", id="\udfff"), 1200, 5)
    assert block(cut(gate, 1500)).id == ["?"]
