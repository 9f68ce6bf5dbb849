"""What a worker has done since its start, counted as it does it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from streams.partition import Outgoing


@dataclass(slots=True)
class Work:
    """Counts of one process, of all partitions that it has had."""

    folded: int = 0  # messages
    published: Counter[str] = field(default_factory=Counter)  # records, by topic
    decisions: int = 0
    checkpoints: int = 0
    checkpoint_s: float = 0.0  # of all checkpoints together

    def note(self, out: Iterable[Outgoing], control: str) -> None:
        """A message was folded, and this is published for it; `control` is the control topic."""
        self.folded += 1
        for record in out:
            self.published[record.topic] += 1
            # Of the control records only a decision's key is the pool's name alone.
            self.decisions += record.topic == control and b"/" not in (record.key or b"/")

    def checkpointed(self, seconds: float) -> None:
        """A checkpoint took so long."""
        self.checkpoints += 1
        self.checkpoint_s += seconds
