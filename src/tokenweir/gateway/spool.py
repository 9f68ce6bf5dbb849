"""Reports that have not been acknowledged yet, in memory, bounded by bytes."""

from collections import deque
from collections.abc import Iterable
from typing import Protocol

from tokenweir.gateway.report import Cut


class Losses:
    """What did not fit: lost, counted, and a hole in the sequence."""

    __slots__ = ("at_ms", "reports", "rows")

    def __init__(self) -> None:
        self.reports = 0
        self.rows = 0
        self.at_ms: int | None = None  # own time of the newest loss

    def count(self, cut: Cut) -> None:
        """This report is lost."""
        self.reports += 1
        self.rows += cut.rows
        self.at_ms = cut.cut_ms


class Outbox(Protocol):
    """Reports that wait to be acknowledged: first in, first out, bounded."""

    losses: Losses

    @property
    def bytes(self) -> int:
        """What the waiting reports take."""

    @property
    def oldest_ms(self) -> int | None:
        """When the report that goes next was cut, own time; None when none waits."""

    @property
    def trouble(self) -> str:
        """What is wrong with it, in a sentence; empty when nothing is."""

    def __len__(self) -> int: ...

    def add(self, cuts: Iterable[Cut]) -> None:
        """Keep these reports; those that do not fit are lost. A closing report always fits."""

    def head(self) -> Cut | None:
        """The report to send next; it stays until it is acknowledged (R1)."""

    def acknowledged(self) -> None:
        """The head has been appended."""


class Spool:
    """An outbox in memory: what it holds is gone with the process."""

    __slots__ = ("_cuts", "bytes", "losses", "most_bytes")

    trouble = ""

    def __init__(self, most_bytes: int) -> None:
        self._cuts: deque[Cut] = deque()
        self.most_bytes = most_bytes
        self.bytes = 0
        self.losses = Losses()

    def __len__(self) -> int:
        return len(self._cuts)

    @property
    def oldest_ms(self) -> int | None:
        """When the report that goes next was cut, own time; None when none waits."""
        head = self.head()
        return head.cut_ms if head else None

    def add(self, cuts: Iterable[Cut]) -> None:
        """Keep these reports; those that do not fit are lost. A closing report always fits."""
        for cut in cuts:
            if self.bytes + cut.size > self.most_bytes and not cut.report.closing:
                self.losses.count(cut)
                continue
            self._cuts.append(cut)
            self.bytes += cut.size

    def head(self) -> Cut | None:
        """The report to send next; it stays until it is acknowledged (R1)."""
        return self._cuts[0] if self._cuts else None

    def acknowledged(self) -> None:
        """The head has been appended."""
        self.bytes -= self._cuts.popleft().size
