"""Reports that have not been acknowledged yet, in memory, bounded by bytes."""

from collections import deque
from collections.abc import Iterable

from tokenweir.gateway.report import Cut


class Spool:
    """First in, first out. What does not fit is lost, counted, and a hole in the sequence."""

    __slots__ = ("_cuts", "bytes", "lost_reports", "lost_rows", "most_bytes")

    def __init__(self, most_bytes: int) -> None:
        self._cuts: deque[Cut] = deque()
        self.most_bytes = most_bytes
        self.bytes = 0
        self.lost_reports = 0
        self.lost_rows = 0

    def __len__(self) -> int:
        return len(self._cuts)

    def add(self, cuts: Iterable[Cut]) -> None:
        """Keep these reports; those that do not fit are lost. A closing report always fits."""
        for cut in cuts:
            if self.bytes + cut.size > self.most_bytes and not cut.report.closing:
                self.lost_reports += 1
                self.lost_rows += cut.rows
                continue
            self._cuts.append(cut)
            self.bytes += cut.size

    def head(self) -> Cut | None:
        """The report to send next; it stays until it is acknowledged (R1)."""
        return self._cuts[0] if self._cuts else None

    def acknowledged(self) -> None:
        """The head has been appended."""
        self.bytes -= self._cuts.popleft().size
