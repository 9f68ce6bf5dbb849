"""Decisions computed again beside the recorded ones, in step (S6)."""

from collections.abc import Iterable
from dataclasses import dataclass

from tokenweir.core.pool import Pool
from tokenweir.core.step import Decided
from tokenweir.records.journal import JournalEntry
from tokenweir.review.difference import (
    ABSENT,
    Difference,
    first_difference,
    rows_difference,
)
from tokenweir.review.encoded.entries import encode_decided
from tokenweir.review.recorded import Recorded, boundary_of
from tokenweir.review.span import Span
from tokenweir.rows import to_rows
from tokenweir.wire import decode_as, encode

Computed = Decided | JournalEntry  # a decision, or an audit entry


@dataclass(slots=True)
class Compared:
    """What was compared and found the same."""

    decisions: int = 0
    audits: int = 0
    snapshots: int = 0
    first: str = ""  # ids of decisions
    last: str = ""


class Comparison:
    """Compares what the range holds, until the first difference or the end of what is recorded."""

    def __init__(self, recorded: Recorded, span: Span, start_ms: int, is_cut: bool) -> None:
        """The pool starts at the boundary `start_ms`; `is_cut`: the journal has lost its head."""
        self.recorded, self.span, self.start_ms = recorded, span, start_ms
        self.is_cut = is_cut
        self.same = Compared()
        self.unrecorded = 0  # decisions that the journal has not, before its beginning or yet
        self.difference: Difference | None = None
        self.is_over = False
        self.met_break = False  # of what is recorded: nothing behind it can be compared

    async def decided(self, before_ms: int, decided: Decided, offset: int, pool: Pool) -> None:
        """A decision was computed, at the message of this offset; `pool` stands behind it."""
        at_ms = decided.decision.at_ms
        await self.recorded.upto(at_ms)
        self._left_over(before_ms, at_ms, offset)
        self.is_over = self.is_over or self.span.is_over(at_ms, offset)
        if not self.is_over:
            self._entry(decided.decision.id, decided, at_ms, offset)
            self._entries(decided.audits, at_ms, offset)
        if not self.is_over and self.span.has_begun(at_ms, offset):
            self._snapshot(at_ms, offset, pool)

    async def noted(self, entries: Iterable[JournalEntry], boundary_ms: int, offset: int) -> None:
        """A record caused these entries, after the decision of this boundary."""
        await self.recorded.upto(boundary_ms)
        self._entries(entries, boundary_ms, offset)

    def _entries(self, entries: Iterable[JournalEntry], boundary_ms: int, offset: int) -> None:
        for entry in entries:
            self._entry(entry.id, entry, boundary_ms, offset)

    def _entry(self, id_: str, computed: Computed, boundary_ms: int, offset: int) -> None:
        found = self.recorded.waiting.pop(id_, None)
        if self.is_over or not self.span.has_begun(boundary_ms, offset):
            return
        if found is None:
            self._missing(id_, computed, boundary_ms)
        else:
            self._same(id_, computed, found)

    def _same(self, id_: str, computed: Computed, recorded: bytes) -> None:
        if _bytes_of(computed) != recorded:  # an older version of the schema, or a difference
            entry = decode_as(JournalEntry, recorded)
            self._end(first_difference(id_, entry, _entry_of(computed)))
        if self.difference is not None:
            return
        if isinstance(computed, Decided):
            self.same.decisions += 1
            self.same.first = self.same.first or id_
            self.same.last = id_
        else:
            self.same.audits += 1

    def _missing(self, id_: str, computed: Computed, boundary_ms: int) -> None:
        """The journal lacks an entry: it does not reach so far, or the entry should be there."""
        if self.recorded.has_ended and boundary_ms >= self.recorded.newest_ms:
            self.met_break = self.recorded.broken is not None
            self.is_over = self.met_break
        elif not self.is_cut or self.same.decisions:
            self._end(Difference(id_, "", ABSENT, _entry_of(computed).body))
            return
        self.unrecorded += isinstance(computed, Decided) and not self.is_over

    def _left_over(self, before_ms: int, at_ms: int, offset: int) -> None:
        """What is recorded of earlier boundaries, and was not computed."""
        for entry in self.recorded.before(at_ms):
            boundary_ms = boundary_of(entry.id)
            # At and before the start there is what the state already holds.
            known = boundary_ms <= self.start_ms or not self._is_asked_for(boundary_ms, offset)
            # Of an offset range's first decision only the boundary between is known.
            first = self.span.from_offset is not None and boundary_ms <= before_ms
            if not known and not (first and not self.same.decisions):
                self._end(Difference(entry.id, "", entry.body, ABSENT))

    def _is_asked_for(self, boundary_ms: int, offset: int) -> bool:
        span = self.span
        return span.has_begun(boundary_ms, offset) and not span.is_over(boundary_ms, offset)

    def _snapshot(self, at_ms: int, offset: int, pool: Pool) -> None:
        recorded = self.recorded.snapshot(at_ms, offset)
        if recorded is None or self.difference is not None:
            return
        id_ = f"{pool.name}@{at_ms}/snapshot"
        self._end(rows_difference(id_, recorded.rows, to_rows(pool)))
        self.same.snapshots += self.difference is None

    def _end(self, difference: Difference | None) -> None:
        """Only the first difference counts: what follows from it would differ too."""
        if self.difference is None and difference is not None:
            self.difference, self.is_over = difference, True


def _bytes_of(computed: Computed) -> bytes:
    return encode_decided(computed) if isinstance(computed, Decided) else encode(computed)


def _entry_of(computed: Computed) -> JournalEntry:
    return computed.entries[0] if isinstance(computed, Decided) else computed
