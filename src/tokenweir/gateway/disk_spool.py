"""Outboxes on disk: of a pool of this process, and of what earlier processes left (R1, T5)."""

import logging
import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from tokenweir.errors import BadRecord
from tokenweir.gateway.report import Cut
from tokenweir.gateway.spool import Losses, Spool
from tokenweir.gateway.spool_folder import SpoolFolder
from tokenweir.records.usage import UsageReport
from tokenweir.wire import decode_as

LOG = logging.getLogger(__name__)
OLDEST_MS = 7 * 86_400_000  # the control plane believes no older report


class Shelf:
    """Reports in a folder, in their order; only the one that goes next is in memory.

    `cut_ms` tells when a report was cut, on our clock, from its own and its wall time.
    """

    def __init__(
        self, folder: SpoolFolder, places: Iterable[int], cut_ms: Callable[[int, int], int]
    ) -> None:
        self._folder = folder
        self._places = deque(places)
        self._cut_ms = cut_ms
        self._head: Cut | None = None

    def __len__(self) -> int:
        return len(self._places)

    @property
    def oldest_ms(self) -> int | None:
        """When the report that goes next was cut, own time; None when it is not in memory."""
        head = self._head
        return head.cut_ms if head else None

    def put(self, cuts: Sequence[Cut], places: Sequence[int]) -> None:
        """These reports have been written there."""
        if cuts and not self._places:
            self._head = cuts[0]
        self._places += places

    def head(self) -> Cut | None:
        """The report to send next; it stays until it is acknowledged (R1)."""
        while self._head is None and self._places:
            try:
                self._head = self._load(self._places[0])
            except (sqlite3.Error, BadRecord, TypeError) as error:
                LOG.error("%s: a report cannot be read, and is lost: %r", self._folder.path, error)
                self._drop()
        return self._head

    def acknowledged(self) -> None:
        """The head has been appended."""
        assert self._head is not None
        self._folder.bytes -= self._head.size
        self._head = None
        self._drop()

    def _load(self, place: int) -> Cut:
        query = "SELECT own_ms, wall_ms, size, rows, report FROM reports WHERE place = ?"
        found = self._folder.database.execute(query, (place,)).fetchone()
        own_ms, wall_ms, size, rows, report = found
        return Cut(decode_as(UsageReport, report), self._cut_ms(own_ms, wall_ms), size, rows)

    def _drop(self) -> None:
        place = self._places.popleft()
        try:
            self._folder.drop(place)
        except sqlite3.Error as error:
            # The next process will send it once more, and it is dropped as a repeat (R1).
            LOG.warning("%s: a report that was sent stays: %s", self._folder.path, error)


def remains(folder: SpoolFolder) -> Shelf:
    """What earlier processes left, under their gateways' ids and sequences, oldest first.

    How old it is, the wall clock says; where that has jumped back it is taken as new.
    """

    def cut_ms(_: int, wall_ms: int) -> int:
        return folder.clock() - min(max(folder.wall() - wall_ms, 0), OLDEST_MS)

    return Shelf(folder, folder.left, cut_ms)


class DiskSpool:
    """An outbox of one pool in a folder. Let the pool's gate have `settled` as its rows.

    Where the disk takes no report it waits in memory, and `trouble` says so.
    """

    def __init__(self, folder: SpoolFolder, pool: str, gateway: str) -> None:
        self.losses = Losses()
        self.bytes = 0
        self._folder = folder
        self._life = folder.begin_life(gateway, pool)
        self.settled = folder.settled(self._life)
        self._shelf = Shelf(folder, (), lambda own_ms, _: own_ms)
        self._behind = Spool(folder.most_bytes)  # what the disk did not take
        self._trouble = ""

    def __len__(self) -> int:
        return len(self._shelf) + len(self._behind)

    @property
    def oldest_ms(self) -> int | None:
        """When the report that goes next was cut, own time; None when none waits."""
        return self._shelf.oldest_ms if len(self._shelf) else self._behind.oldest_ms

    @property
    def trouble(self) -> str:
        """What is wrong with the disk, in a sentence; empty when nothing is."""
        return self._trouble or self.settled.trouble

    def add(self, cuts: Iterable[Cut]) -> None:
        """Keep these reports; those that do not fit are lost. A closing report always fits."""
        whole = tuple(cuts)
        kept = [cut for cut in whole if self._fits(cut)]
        # Behind a report in memory none goes to disk: they are sent in order.
        if len(self._behind) or not self._written(kept):
            self._behind.add(kept)
        self.settled.begin(whole[-1].report.sequence + 1, whole[-1].cut_ms)

    def head(self) -> Cut | None:
        """The report to send next; it stays until it is acknowledged (R1)."""
        return self._shelf.head() or self._behind.head()

    def acknowledged(self) -> None:
        """The head has been appended."""
        head = self.head()
        assert head is not None
        self.bytes -= head.size
        if len(self._shelf):
            self._shelf.acknowledged()
        else:
            self._behind.acknowledged()
            self._folder.bytes -= head.size

    def _fits(self, cut: Cut) -> bool:
        if self._folder.bytes + cut.size > self._folder.most_bytes and not cut.report.closing:
            self.losses.count(cut)
            return False
        self.bytes += cut.size
        self._folder.bytes += cut.size
        return True

    def _written(self, cuts: Sequence[Cut]) -> bool:
        try:
            places = self._folder.keep(self._life, cuts, self._folder.wall())
        except sqlite3.Error as error:
            self._trouble = f"reports wait in memory: {self._folder.path} takes none: {error}"
            return False
        self._trouble = ""
        self._shelf.put(cuts, places)
        return True
