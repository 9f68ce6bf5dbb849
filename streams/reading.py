"""Which message comes next: each is folded exactly once, in the order of the log (S1).

After a rebalance Faust can skip single messages and repeat others, so its word for what is next is
not taken: the state of a partition knows the offset that it expects.
"""

from typing import Literal

Verdict = Literal["stale", "repeat", "next", "ahead"]


def judge(next_offset: int, offset: int, generation: int, current: int) -> Verdict:
    """What to do with a message that the consumer of some generation delivers.

    `stale`: of another generation than the consumer's, drop it. `repeat`: already folded,
    acknowledge it. `ahead`: read what is missing from the log, and fold that first.
    """
    if generation != current:
        return "stale"
    if offset == next_offset:
        return "next"
    return "repeat" if offset < next_offset else "ahead"
