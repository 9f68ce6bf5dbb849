"""The usage topic as a source: pools, restored from rows, snapshots or the log's start."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from streams.checkpoint import Store
from streams.core import Core, PoolState
from streams.log import Log
from streams.partition import Partition, Place
from streams.restore import restore
from tokenweir.topics import Topics

P = TypeVar("P", bound=PoolState)


@dataclass(frozen=True, slots=True)
class UsageLog(Generic[P]):
    """The log that the control plane folds with `core`."""

    core: Core[P]
    topics: Topics
    partitions: int

    @property
    def topic(self) -> str:
        """The usage topic."""
        return self.topics.usage

    async def load(
        self, partition: int, store: Store, log: Log, unfoldable: Mapping[int, str]
    ) -> tuple[Partition[P], Mapping[str, str]]:
        """The partition's pools (S3), and those that a break must precede (S5)."""
        place = Place(self.topics, partition, self.partitions)
        restored = await restore(self.core, place, store, log)
        return Partition(self.core, place, restored, unfoldable), restored.why_break
