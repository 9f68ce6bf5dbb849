"""A model server that takes its time and computes nothing.

The times are those of Llama-2-70B on eight H100, one request at a time: a straight line through the
75 measurements that SplitwiseSim publishes (Splitwise, ISCA '24; `data/perf_model.csv`).
"""

from dataclasses import dataclass

SPEED = 10.0  # the demo's minute has no time for answers of seconds


@dataclass(frozen=True, slots=True)
class Backend:
    """How long a request takes, from its token counts."""

    first_s: float = 0.0018  # before the first input token
    input_s: float = 0.000_099  # an input token that no cache serves
    output_s: float = 0.030_4  # an output token
    speed: float = SPEED  # how many times faster than that it is

    def duration_s(self, uncached: int, out: int) -> float:
        """Seconds from admission to the last output token."""
        return (self.first_s + self.input_s * uncached + self.output_s * out) / self.speed
