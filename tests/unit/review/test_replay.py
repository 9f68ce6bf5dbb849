"""A recorded run is computed again and is the same; what is not the same is found."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.pools import START
from tests.recordings import Recording, messages, recorded, run
from tokenweir.core.step import fold as live_fold
from tokenweir.errors import BadInput
from tokenweir.records.journal import AuditEntry, Break, DecisionEntry, JournalEntry, SnapshotChunk
from tokenweir.review import fold as review_fold
from tokenweir.review.difference import ABSENT
from tokenweir.review.log import Entry
from tokenweir.review.replay import Outcome, replay
from tokenweir.review.span import Span
from tokenweir.wire import decode_as, encode

ALL = Span()


@pytest.fixture(scope="module")
def made() -> Recording:
    return recorded(messages(run(3, 170)))


def copy(made: Recording) -> Recording:
    return replace(made, log=[*made.log], entries=[*made.entries], dead=dict(made.dead))


def entry(encoded: Entry) -> JournalEntry:
    return decode_as(JournalEntry, encoded.value)


def decisions(made: Recording) -> list[int]:
    """The boundaries of all recorded decisions."""
    found = map(entry, made.entries)
    return [each.at_ms for each in found if isinstance(each.body, DecisionEntry)]


def place(made: Recording, kind: type, number: int) -> int:
    """Where the journal has its entry of this kind, from the first or the last."""
    return [at for at, e in enumerate(made.entries) if isinstance(entry(e).body, kind)][number]


def changed(made: Recording, at: int, change: Callable[[Any], Any]) -> Recording:
    """The recording with another body in one place of its journal."""
    other, old = copy(made), entry(made.entries[at])
    other.entries[at] = Entry(
        made.entries[at].position, encode(replace(old, body=change(old.body)))
    )
    return other


def renumbered(made: Recording, entries: list[Entry]) -> Recording:
    numbered = [Entry(position, each.value) for position, each in enumerate(entries)]
    return replace(made, entries=numbered)


async def test_a_recorded_run_is_the_same_again() -> None:
    """With reclaim, quotas that are spent and begin anew, the breaker, and what cannot be used."""
    kinds: set[str] = set()
    for seed in (1, 2):
        made = recorded(messages(run(seed)))
        outcome = await replay(made, ALL)
        assert outcome.is_identical
        assert outcome.start.is_blank
        assert outcome.same.decisions == len(decisions(made)) > 50
        assert outcome.same.snapshots >= 2
        assert made.dead
        assert (outcome.stopped, outcome.unrecorded, outcome.missed_start) == ("", 0, False)
        found = [entry(each).body for each in made.entries]
        audits = [body.kind for body in found if isinstance(body, AuditEntry)]
        assert outcome.same.audits == len(audits)
        kinds |= set(audits)
    assert {"spec", "spec_rejected", "capacity", "reclaim", "quota", "tier", "breaker"} <= kinds


async def test_ranges_that_meet_have_all_decisions_between_them(made: Recording) -> None:
    times = decisions(made)
    found, starts = 0, set[int]()
    for first in range(0, len(times), 25):
        some = times[first : first + 25]
        outcome = await replay(made, Span(from_ms=some[0], to_ms=some[-1]))
        assert outcome.is_identical
        assert outcome.same.decisions == len(some)
        assert (outcome.same.first, outcome.same.last) == (f"chat@{some[0]}", f"chat@{some[-1]}")
        found, starts = found + outcome.same.decisions, starts | {outcome.start.next_offset}
    assert found == len(times)
    assert len(starts) > 2  # each began at its nearest snapshot


async def test_ranges_of_offsets_have_each_decision_once(made: Recording) -> None:
    end = made.log[-1].offset
    found = 0
    for first in range(0, end + 1, 150):
        outcome = await replay(made, Span(from_offset=first, to_offset=min(first + 149, end)))
        assert outcome.is_identical
        assert not outcome.missed_start
        found += outcome.same.decisions
    assert found == len(decisions(made))


@pytest.mark.parametrize(
    "span",
    [
        Span(to_ms=START - 60_000),
        Span(from_ms=START + 10**9),
        Span(from_ms=START - 60_000, to_ms=START - 1),
        Span(from_offset=10**9),
    ],
)
async def test_before_the_first_and_after_the_last_there_is_nothing_to_compare(
    made: Recording, span: Span
) -> None:
    outcome = await replay(made, span)
    assert outcome.is_identical
    assert outcome.same.decisions == 0


async def test_an_empty_log_is_the_same_as_an_empty_journal() -> None:
    outcome = await replay(Recording("chat", [], []), ALL)
    assert (outcome.is_identical, outcome.messages, outcome.same.decisions) == (True, 0, 0)


async def test_the_first_field_that_differs_is_told_with_both_values(made: Recording) -> None:
    at = place(made, DecisionEntry, 40)

    def other(body: DecisionEntry) -> DecisionEntry:
        grants = [*body.tenants.grant]
        grants[1] += 7
        return replace(body, tenants=replace(body.tenants, grant=grants))

    outcome = await replay(changed(made, at, other), ALL)
    difference, before = outcome.difference, entry(made.entries[at]).body
    assert isinstance(before, DecisionEntry)
    assert difference is not None
    assert difference.id == before.decision.id
    assert difference.path == f"tenants.grant[1] ({before.tenants.tenant[1]})"
    assert (difference.recorded, difference.computed) == (
        before.tenants.grant[1] + 7,
        before.tenants.grant[1],
    )
    assert outcome.same.decisions == 40


async def test_a_difference_outside_the_range_is_nobodys_business(made: Recording) -> None:
    at = place(made, DecisionEntry, 20)
    other = changed(made, at, lambda body: replace(body, used=body.used + 1))
    outcome = await replay(other, Span(from_ms=decisions(made)[21]))
    assert outcome.is_identical


async def test_a_snapshot_that_differs_is_found_with_its_row(made: Recording) -> None:
    at = place(made, SnapshotChunk, -1)

    def other(body: SnapshotChunk) -> SnapshotChunk:
        rows = [*body.rows]
        rows[0] = rows[0][:-1] + bytes([rows[0][-1] ^ 1])
        return replace(body, rows=rows)

    outcome = await replay(changed(made, at, other), ALL)
    assert outcome.difference is not None
    assert outcome.difference.path.startswith("rows[consumption/chat/00000].values[")
    assert outcome.difference.path.endswith("]")


async def test_an_entry_that_only_one_side_has_is_a_difference(made: Recording) -> None:
    at = place(made, DecisionEntry, 30)
    gone = renumbered(made, [e for n, e in enumerate(made.entries) if n != at])
    outcome = await replay(gone, ALL)
    assert outcome.difference is not None
    assert outcome.difference.recorded == ABSENT
    old = entry(made.entries[at])
    late = replace(old, at_ms=old.at_ms + 1, id=f"chat@{old.at_ms + 1}")
    next_ = place(made, DecisionEntry, 31)
    entries = [*made.entries[:next_], Entry(0, encode(late)), *made.entries[next_:]]
    outcome = await replay(renumbered(made, entries), ALL)
    assert outcome.difference is not None
    assert (outcome.difference.id, outcome.difference.computed) == (late.id, ABSENT)


async def test_what_the_journal_does_not_have_yet_is_no_difference(made: Recording) -> None:
    at = place(made, DecisionEntry, -3)
    outcome = await replay(replace(made, entries=made.entries[:at]), ALL)
    assert outcome.is_identical
    assert outcome.unrecorded == 3


async def test_s6_repeats_with_the_same_bytes_are_dropped(made: Recording) -> None:
    again = [*made.entries[:60], *made.entries[30:60], *made.entries[60:]]
    outcome = await replay(renumbered(made, again), ALL)
    assert outcome.is_identical
    assert outcome.repeats == 30
    assert outcome.same == (await replay(made, ALL)).same


async def test_s6_a_repeat_that_differs_is_an_alarm(made: Recording) -> None:
    at = place(made, DecisionEntry, 10)
    other = changed(made, at, lambda body: replace(body, budget=body.budget + 1))
    outcome = await replay(renumbered(made, [*made.entries, other.entries[at]]), ALL)
    assert outcome.difference is None
    assert outcome.alarms == (entry(made.entries[at]).id,)
    assert not outcome.is_identical


def broken(made: Recording) -> tuple[Recording, int]:
    """A recording whose journal has a break and a snapshot in its middle; the break's offset."""
    at = place(made, SnapshotChunk, -2)
    chunk = entry(made.entries[at])
    assert isinstance(chunk.body, SnapshotChunk)
    offset = chunk.body.next_offset
    gap = JournalEntry(
        "chat",
        chunk.at_ms,
        f"chat@{chunk.at_ms}/break/{offset}",
        Break("a range is gone", offset, chunk.body.arithmetic),
    )
    entries = [*made.entries[:at], Entry(0, encode(gap)), *made.entries[at:]]
    return renumbered(made, entries), offset


async def test_s5_replay_does_not_cross_a_break_and_says_why(made: Recording) -> None:
    log, offset = broken(made)
    outcome = await replay(log, ALL)
    assert outcome.is_identical
    assert outcome.stopped == f"a break before offset {offset}: a range is gone"
    assert 0 < outcome.same.decisions < len(decisions(made))


async def test_s5_behind_a_break_replay_begins_at_its_snapshot(made: Recording) -> None:
    log, offset = broken(made)
    total = len(decisions(made))
    before = (await replay(log, ALL)).same.decisions
    outcome = await replay(log, Span(from_ms=decisions(made)[before] + 1))
    assert outcome.is_identical
    assert outcome.start.next_offset == offset
    assert (outcome.stopped, outcome.same.decisions) == ("", total - before - 1)


async def test_without_the_logs_head_it_begins_at_the_first_snapshot_behind(
    made: Recording,
) -> None:
    cut = replace(made, log=[m for m in made.log if m.offset >= 50], cut=50)
    outcome = await replay(cut, ALL)
    assert outcome.is_identical
    assert outcome.missed_start
    assert outcome.start.next_offset > 50
    early = await replay(cut, Span(from_ms=START + 2_000))
    assert (early.missed_start, early.same) == (True, outcome.same)
    late = await replay(cut, Span(from_ms=decisions(made)[-5]))
    assert (late.missed_start, late.same.decisions) == (False, 5)


async def test_a_log_without_its_head_and_without_a_snapshot_is_refused(made: Recording) -> None:
    rest = [m for m in made.log if m.offset >= 50]
    with pytest.raises(BadInput, match="kept from offset 50 on, and the journal has no snapshot"):
        await replay(replace(made, log=rest, entries=[], cut=50), ALL)


async def test_another_arithmetic_is_refused_in_words(made: Recording) -> None:
    at = place(made, SnapshotChunk, -1)
    other = changed(made, at, lambda body: replace(body, arithmetic=99))
    with pytest.raises(BadInput, match="decided with arithmetic 99, and this version has"):
        await replay(other, Span(from_ms=decisions(made)[-1]))


async def test_what_the_live_side_could_not_use_is_not_folded_here_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The core fails on one gateway's reports; they are letters, and their time counts."""

    def fails(pool: Any, record: Any, append_ms: int) -> Any:
        if getattr(record, "gateway", "") == "b" and record.sequence in (5, 11):
            raise ZeroDivisionError("made to fail")
        return live_fold(pool, record, append_ms)

    log = list(messages(run(4, 60)))
    monkeypatch.setattr("tests.recordings.CORE", replace(core(), fold=fails))
    made = recorded(log)
    failed = {at for at, letter in made.dead.items() if "ZeroDivision" in letter.reason}
    assert len(failed) == 2
    assert (await replay(made, ALL)).is_identical  # by the letters
    without = replace(made, dead={at: v for at, v in made.dead.items() if at not in failed})
    assert not (await replay(without, ALL)).is_identical
    monkeypatch.setattr(review_fold, "fold", fails)
    assert (await replay(without, ALL)).is_identical  # by failing in the same way


def core() -> Any:
    from agents.control import CORE

    return CORE


async def test_letters_of_another_log_with_the_same_offsets_do_not_count(made: Recording) -> None:
    strange = {
        m.offset: replace(letter, offset=m.offset)
        for m, letter in zip(made.log[20:60], [*made.dead.values()] * 40, strict=False)
    }
    outcome: Outcome = await replay(replace(made, dead=strange), ALL)
    assert outcome.is_identical


def test_a_range_is_by_time_or_by_offset() -> None:
    with pytest.raises(BadInput, match="by time or by offset"):
        Span(from_ms=1, to_offset=2)
    with pytest.raises(BadInput, match="before it begins"):
        Span(from_ms=2, to_ms=1)
