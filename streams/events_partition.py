"""The state of one partition of the events topic, and how it is stored and found again.

Each row has two keys that are written in turns, so what the newest marker names is never written
over: a crash in the middle of a checkpoint leaves the one before it whole. Where control workers go
back to snapshots in the journal, this needs none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from streams.checkpoint import Marker, Store, checksum, read_marker
from streams.dead_letters import dead_letter
from streams.partition import CHECKPOINT_MS, Outgoing, Place, Unfoldable
from tokenweir.errors import BadRecord
from tokenweir.events.count import request_key
from tokenweir.events.gather import Flow, Gathering, advance, event_ms, gather
from tokenweir.events.read import Heard, read
from tokenweir.events.rows import POOLS, changed_rows, from_rows, stored
from tokenweir.gateway.report import Cut
from tokenweir.topics import partition_of, partition_of_key, pool_key
from tokenweir.usage_log import Message
from tokenweir.wire import encode

READER = "events"
FORM = 1  # of the rows
GATHERED = "events"  # the one name under which the marker keeps the checksums


@dataclass(frozen=True, slots=True)
class OutgoingReport(Outgoing):
    """A report to publish; its age is of the moment that it is sent (T5)."""

    cut: Cut | None = None


class EventsPartition:
    """Gathers the messages of one partition; what another producer's partitioner has put into the
    wrong one goes to the partition that Kafka's default has for its key.

    `sums` are the checksums of the stored rows by their keys, `unfoldable` the offsets that the
    gathering is known to fail on, and how.
    """

    def __init__(
        self,
        place: Place,
        state: Gathering,
        next_offset: int,
        sums: Mapping[str, str],
        unfoldable: Mapping[int, str],
    ) -> None:
        self.place, self.state, self.next_offset = place, state, next_offset
        self.sums = dict(sums)
        self.unfoldable = unfoldable
        self.checkpoint_ms = state.clock_ms
        self.has_cut = False

    @property
    def pools(self) -> Mapping[str, Flow]:
        """What has been heard of, by name."""
        return self.state.pools

    def take(self, message: Message) -> list[Outgoing]:
        """Gather the next message; the reports that it closes, in order, and dead letters."""
        self.next_offset = message.offset + 1
        heard, bad = self._heard(message)
        cuts = advance(self.state, message.append_ms, tick=heard is None and not bad)
        self.has_cut = bool(cuts)
        self.checkpoint_ms = self.checkpoint_ms or self.state.clock_ms
        out: list[Outgoing] = [self._report(cut) for cut in cuts]
        if heard is not None:
            key = message.key or request_key(heard.event)
            home = partition_of_key(key, self.place.partitions)
            if home != self.place.partition:
                return [*out, self._forward(heard, message, key, home)]
            bad = self._gather(heard, message)
        return [*out, self._letter(message, bad)] if bad else out

    def is_even(self) -> bool:
        """It always is: nothing is ahead of `next_offset`."""
        return True

    def is_checkpoint_due(self) -> bool:
        """Every five seconds of log time, when little waits for a report."""
        passed = self.state.clock_ms // CHECKPOINT_MS > self.checkpoint_ms // CHECKPOINT_MS
        return passed and (self.has_cut or not any(flow.rows for flow in self.pools.values()))

    def changed_rows(self) -> dict[str, bytes]:
        """The rows that changed, each under the key that the newest marker does not name."""
        rows = changed_rows(self.state)
        return {_key(name, not self._slot(name)): row for name, row in rows.items()}

    def rows_before(self) -> Mapping[str, str]:
        """Nothing: no row is left out, and none is deleted."""
        return {}

    def marker(self, rows: Mapping[str, bytes]) -> Marker:
        """The marker of a checkpoint that writes `rows`."""
        replaced = {_key(name, slot) for name, slot in map(_name_and_slot, rows)}
        replaced |= {_key(name, not slot) for name, slot in map(_name_and_slot, rows)}
        kept = {key: sum for key, sum in self.sums.items() if key not in replaced}
        sums = {**kept, **{key: checksum(row) for key, row in rows.items()}}
        return Marker(self.next_offset, FORM, {GATHERED: dict(sorted(sums.items()))})

    def checkpointed(self, marker: Marker) -> None:
        """Take note that the marker and its rows are safe."""
        self.sums = dict(marker.pools[GATHERED])
        self.checkpoint_ms = self.state.clock_ms
        stored(self.state)

    def breaks(self, whys: Mapping[str, str]) -> Sequence[Outgoing]:
        """Nothing: there is no replay of events."""
        return ()

    def _heard(self, message: Message) -> tuple[Heard | None, str]:
        """The event, None for a tick, or why it cannot be used."""
        known = self.unfoldable.get(message.offset)
        if known is not None:
            return None, known
        try:
            return read(message.value), ""
        except BadRecord as error:
            return None, str(error)
        except Exception as error:
            raise Unfoldable(message.offset, f"{type(error).__name__}: {error}") from error

    def _gather(self, heard: Heard, message: Message) -> str:
        """The empty string, or why the event cannot be used."""
        try:
            gather(self.state, heard, message.append_ms)
        except BadRecord as error:
            return str(error)
        except Exception as error:
            raise Unfoldable(message.offset, f"{type(error).__name__}: {error}") from error
        return ""

    def _forward(self, heard: Heard, message: Message, key: bytes, home: int) -> Outgoing:
        """The event for the partition of its key, with its time: what is sent again meets it there.

        A crash may forward it twice, as a producer may send it twice.
        """
        self.state.counts["forwarded"] += 1
        self.state.counts["total_differs"] += heard.total_differs
        happened_ms = event_ms(heard.event, message.append_ms)
        event = replace(heard.event, age_ms=None, time_ms=happened_ms)
        return Outgoing(self.place.topics.events, key, encode(event), home)

    def _slot(self, name: str) -> bool:
        return _key(name, True) in self.sums

    def _report(self, cut: Cut) -> OutgoingReport:
        pool = cut.report.pool
        home = partition_of(pool, self.place.partitions)
        return OutgoingReport(self.place.topics.usage, pool_key(pool), None, home, cut)

    def _letter(self, message: Message, reason: str) -> Outgoing:
        self.state.counts["dead_letter"] += 1
        place = self.place
        letter = dead_letter(place.topics.events, place.partition, message, reason, READER)
        return Outgoing(place.topics.dead_letter, message.key, encode(letter))


@dataclass(frozen=True, slots=True)
class Found:
    """What the tables hold of a partition, and of it what cannot be trusted."""

    marker: Marker
    rows: Mapping[str, bytes]
    damaged: Sequence[str]


def find(store: Store) -> Found | None:
    """The rows that the newest marker names, by name; None without a marker."""
    marker = read_marker(store)
    if marker is None or marker.arithmetic != FORM:
        return None
    rows, damaged = {}, []
    for key, wanted in marker.pools[GATHERED].items():
        row = store.get(key)
        if row is not None and checksum(row) == wanted:
            rows[_name_and_slot(key)[0]] = row
        else:
            damaged.append(key)
    return Found(marker, rows, damaged)


def gathering(found: Found) -> Gathering | None:
    """What the rows hold, or None when the one that has the sequences is not there."""
    try:
        return from_rows(found.rows) if POOLS in found.rows else None
    except (LookupError, ValueError, TypeError):
        return None


def _key(name: str, slot: bool) -> str:
    """A row's key, which begins with its table's name."""
    table = "pools" if name == POOLS else "seen"
    return f"{table}/{name}/{int(slot)}"


def _name_and_slot(key: str) -> tuple[str, bool]:
    _, name, slot = key.split("/")
    return name, slot == "1"
