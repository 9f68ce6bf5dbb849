"""What `streams.folding` folds: a topic, and the state of each of its partitions."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from streams.checkpoint import Checksums, Marker, Store
from streams.log import Log
from streams.partition import Outgoing, Place
from tokenweir.usage_log import Message


class Folded(Protocol):
    """The state of one partition: memory and arithmetic, as `streams.partition` has it."""

    next_offset: int

    @property
    def place(self) -> Place:
        """Which partition it is."""

    @property
    def pools(self) -> Mapping[str, Any]:
        """What it holds, by name."""

    def take(self, message: Message) -> Sequence[Outgoing]:
        """Fold the next message; raises `Unfoldable`, and must not be used any more then."""

    def is_even(self) -> bool:
        """Whether everything stands at `next_offset`."""

    def is_checkpoint_due(self) -> bool:
        """Whether it should be stored now (S2)."""

    def changed_rows(self) -> Mapping[str, bytes]:
        """The rows to write."""

    def rows_before(self) -> Checksums:
        """What their keys held at the last checkpoint; keys that are gone are deleted."""

    def marker(self, rows: Mapping[str, bytes]) -> Marker:
        """The marker of a checkpoint that writes `rows`."""

    def checkpointed(self, marker: Marker) -> None:
        """Take note that the marker and its rows are safe."""

    def breaks(self, whys: Mapping[str, str]) -> Sequence[Outgoing]:
        """What is published where a range of the log is gone (S5)."""


S = TypeVar("S", bound=Folded, covariant=True)


class Source(Protocol[S]):
    """A topic whose partitions are folded."""

    @property
    def topic(self) -> str:
        """Its name."""

    async def load(
        self, partition: int, store: Store, log: Log, unfoldable: Mapping[int, str]
    ) -> tuple[S, Mapping[str, str]]:
        """The partition's state (S3), and for which pools replay must not cross this, and why.

        `unfoldable` are the offsets that it is known to fail on, and how.
        """
