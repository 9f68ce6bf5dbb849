"""One pool's messages folded by the live code, one after the other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tokenweir.core.pool import Pool
from tokenweir.core.sheet import Part, Placed, Sheet, fold_placed, place
from tokenweir.core.step import Decided, UsageRecord, advance, fold
from tokenweir.errors import BadRecord, TokenweirError
from tokenweir.records.journal import JournalEntry
from tokenweir.records.usage import UsageReport
from tokenweir.review.encoded.reports import read_sheet
from tokenweir.review.log import Letter, PoolLog
from tokenweir.topics import pool_key
from tokenweir.usage_log import Message, check_home, read_usage
from tokenweir.wire import head_of

MOST = 256  # reports that are read at once
REPORT = head_of(UsageReport)


class Unfoldable(TokenweirError):
    """The core failed on a record: the pool may be half changed and must not be used any more.

    Begin again, with this letter among those that are known: so does the live side.
    """

    def __init__(self, letter: Letter) -> None:
        self.letter = letter
        super().__init__(f"offset {letter.offset}: {letter.reason}")


class HalfFolded(TokenweirError):
    """The core failed on several records at once, and the pool must not be used any more.

    Begin again, and fold one after the other: that tells which one it is.
    """


@dataclass(frozen=True, slots=True)
class Step:
    """What one message did: the decision that it caused, and then its own journal entries."""

    message: Message
    decided: Decided | None
    entries: tuple[JournalEntry, ...]


class PoolFold:
    """Takes a pool through its messages exactly as `streams.partition` does.

    `letters` are the messages that the live side could not use: time moves with one of them if it
    could be read, and it is not folded, whatever this version would make of it.
    """

    def __init__(
        self, pool: Pool, log: PoolLog, letters: Mapping[int, Letter], most: int = MOST
    ) -> None:
        """So many reports are read at once, at `most`."""
        self.pool, self.letters, self.most = pool, letters, most
        self.partition, self.partitions = log.partition, log.partitions
        self.key = pool_key(pool.name)
        self._is_home = _is_home(pool.name, log.partition, log.partitions)
        self._placed: Placed | None = None  # the sheet of the newest part

    def take(self, message: Message) -> Step | None:
        """Fold a message; None when it does not count. Raises `Unfoldable`."""
        record = self.read(message)
        if record is None:
            return None
        decided = self.advance(message)
        return Step(message, decided, self.fold(record, message))

    def read(self, message: Message) -> UsageRecord | None:
        """The message's record, or None when it does not count."""
        if message.key != self.key:
            return None
        letter = self._letter(message)
        if letter is not None and letter.reason.startswith("unknown schema"):
            return None  # an older worker could not read what this version can
        try:
            record = read_usage(message, self.partition, self.partitions)
        except BadRecord:
            return None
        return record if record.pool == self.pool.name else None

    def advance(self, message: Message, *, leases: bool = True) -> Decided | None:
        """Move the pool's time to that of a message that counts; `leases`: with their records."""
        return advance(self.pool, message.append_ms, leases=leases)

    def fold(self, record: UsageRecord, message: Message) -> tuple[JournalEntry, ...]:
        """Fold the message's record, after `advance`; its journal entries. Raises `Unfoldable`."""
        if self._letter(message) is not None:
            return ()
        try:
            return fold(self.pool, record, message.append_ms)
        except BadRecord:
            return ()
        except Exception as error:  # whatever it is, the live side makes a letter of it
            reason = f"{type(error).__name__}: {error}"
            raise Unfoldable(Letter(message.offset, message.append_ms, reason)) from error

    def is_report(self, message: Message) -> bool:
        """Whether it looks like a report of the pool that can be read together with others."""
        value = message.value
        return (
            message.key == self.key
            and value is not None
            and value.startswith(REPORT)
            and self._letter(message) is None
            and self._is_home
        )

    def reach_ms(self, first: Message) -> int:
        """The first time at which a report behind `first` could reach a boundary or a second."""
        spec = self.pool.spec
        if spec is None or self.pool.pending_spec is not None:
            return 0
        now_ms = max(self.pool.clock_ms, first.append_ms)
        return min(now_ms - now_ms % step_ms + step_ms for step_ms in (1000, spec.interval_ms))

    def sheet(self, reports: Sequence[Message]) -> Sheet | None:
        """What these reports say; None when one of them has to be read alone."""
        return read_sheet(self.pool.name, reports) if len(reports) > 1 else None

    def fold_part(self, part: Part) -> bool:
        """Fold reports within reach of the first, after `advance` to it; False: one by one.

        Raises `HalfFolded`.
        """
        sheet, begin, end = part
        try:
            return fold_placed(self.pool, self._place(sheet), begin, end)
        except Exception as error:  # whatever it is, the live side makes a letter of one of them
            raise HalfFolded(f"{type(error).__name__}: {error}") from error

    def _place(self, sheet: Sheet) -> Placed:
        placed = self._placed
        if placed is None or placed.sheet is not sheet or placed.terms is not self.pool.terms:
            placed = self._placed = place(self.pool, sheet)
        return placed

    def _letter(self, message: Message) -> Letter | None:
        letter = self.letters.get(message.offset)
        # A log that was made anew has the offsets of the old one again.
        return letter if letter is not None and letter.append_ms == message.append_ms else None


def _is_home(pool: str, partition: int, partitions: int) -> bool:
    try:
        check_home(pool, partition, partitions)
    except BadRecord:
        return False
    return True
