"""The state of one partition of the spend topic, and how it is stored and found again.

As with events, each row has two keys that are written in turns, so what the newest marker names is
never written over. What pools report is cumulative and ceilings only rise, so without rows the log
gives the same ceilings again.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from streams.checkpoint import Marker, checksum
from streams.dead_letters import dead_letter
from streams.partition import CHECKPOINT_MS, Outgoing, Place, Unfoldable
from tokenweir.across.rows import block_of, to_rows
from tokenweir.across.share import Across, take
from tokenweir.errors import BadRecord
from tokenweir.records.usage import PoolSpend
from tokenweir.topics import partition_of, pool_key
from tokenweir.usage_log import Message
from tokenweir.wire import decode_as, encode

READER = "quotas"
FORM = 1  # of the rows
SHARED = "shared"  # the one name under which the marker keeps the checksums


class QuotaPartition:
    """Shares the quotas of one partition's tenants; `sums` are the checksums of the stored rows."""

    def __init__(
        self,
        place: Place,
        state: Across,
        next_offset: int,
        sums: Mapping[str, str],
        unfoldable: Mapping[int, str],
    ) -> None:
        self.place, self.state, self.next_offset = place, state, next_offset
        self.sums, self.unfoldable = dict(sums), unfoldable
        self.changed: set[str] = set()
        self.checkpoint_ms = state.clock_ms

    @property
    def pools(self) -> Mapping[str, Any]:
        """What it holds, by name."""
        return {"/".join(key): shared for key, shared in self.state.shared.items()}

    def take(self, message: Message) -> list[Outgoing]:
        """Take the next message; the ceiling that it raises, or a dead letter."""
        self.next_offset = message.offset + 1
        try:
            spend = self._read(message)
            ceiling = take(self.state, spend, message.append_ms)
        except BadRecord as error:
            return [self._letter(message, str(error))]
        except Exception as error:
            raise Unfoldable(message.offset, f"{type(error).__name__}: {error}") from error
        self.checkpoint_ms = self.checkpoint_ms or self.state.clock_ms
        self.changed.add(block_of(spend.tenant))
        if ceiling is None:
            return []
        home = partition_of(ceiling.pool, self.place.partitions)
        key = pool_key(ceiling.pool)
        return [Outgoing(self.place.topics.usage, key, encode(ceiling), home)]

    def is_even(self) -> bool:
        """It always is: nothing is ahead of `next_offset`."""
        return True

    def is_checkpoint_due(self) -> bool:
        """Every five seconds of log time (S2)."""
        return self.state.clock_ms // CHECKPOINT_MS > self.checkpoint_ms // CHECKPOINT_MS

    def changed_rows(self) -> dict[str, bytes]:
        """The rows that changed, each under the key that the newest marker does not name."""
        rows = to_rows(self.state, self.changed)
        return {row_key(name, not self._slot(name)): row for name, row in rows.items()}

    def rows_before(self) -> Mapping[str, str]:
        """Nothing: no row is left out, and none is deleted."""
        return {}

    def marker(self, rows: Mapping[str, bytes]) -> Marker:
        """The marker of a checkpoint that writes `rows`."""
        replaced = {row_key(name_of(key), slot) for key in rows for slot in (False, True)}
        kept = {key: sum for key, sum in self.sums.items() if key not in replaced}
        sums = {**kept, **{key: checksum(row) for key, row in rows.items()}}
        return Marker(self.next_offset, FORM, {SHARED: dict(sorted(sums.items()))})

    def checkpointed(self, marker: Marker) -> None:
        """Take note that the marker and its rows are safe."""
        self.sums = dict(marker.pools[SHARED])
        self.changed.clear()
        self.checkpoint_ms = self.state.clock_ms

    def breaks(self, whys: Mapping[str, str]) -> Sequence[Outgoing]:
        """Nothing: ceilings lie in the pools' own logs, where replay finds them."""
        return ()

    def _read(self, message: Message) -> PoolSpend:
        known = self.unfoldable.get(message.offset)
        if known is not None:
            raise BadRecord(known)
        return decode_as(PoolSpend, message.value)

    def _slot(self, name: str) -> bool:
        return row_key(name, True) in self.sums

    def _letter(self, message: Message, reason: str) -> Outgoing:
        place = self.place
        letter = dead_letter(place.topics.spend, place.partition, message, reason, READER)
        return Outgoing(place.topics.dead_letter, message.key, encode(letter))


def row_key(name: str, slot: bool) -> str:
    """A row's key, which begins with its table's name."""
    return f"shared/{name}/{int(slot)}"


def name_of(key: str) -> str:
    """The name of the row under a key."""
    return key.split("/")[1]
