"""What was used and what could have been used over the last seconds, in one ring of seconds.

Row `s % seconds` of the tokens, and that column of the flows, holds second `s` of the pool's log.
The ring is `grace` longer than the window, so that a late report still finds its second (T7).
"""

from dataclasses import dataclass

import numpy as np

from tokenweir.core.terms import Ints

# The rows of `flows`: integrals over time of what the pool could do and of what was occupied.
BUDGET_TOKENS, BUDGET_SEQUENCES, BUDGET_KV, FIRM_SEQUENCES, LENT_SEQUENCES, FIRM_KV, LENT_KV = (
    range(7)
)


@dataclass(slots=True)
class Window:
    """`tokens` has shape (seconds, tenants), charged tokens.

    `flows` has shape (7, seconds): milli-tokens, then sequences and bytes times milliseconds.
    """

    tokens: Ints
    flows: Ints
    newest: int = 0  # the second up to which the ring is valid


def new_window(tenants: int, window_s: int, grace_s: int) -> Window:
    """An empty ring for so many tenants."""
    seconds = window_s + grace_s + 2
    return Window(
        np.zeros((seconds, tenants), dtype=np.int64), np.zeros((7, seconds), dtype=np.int64)
    )


def roll(window: Window, now_ms: int) -> None:
    """Make room for the second in which `now_ms` lies: what falls out of the ring is cleared."""
    now_s = now_ms // 1000
    if now_s <= window.newest:
        return
    seconds = window.flows.shape[1]
    first = max(window.newest + 1, now_s - seconds + 1)
    stale = [second % seconds for second in range(first, now_s + 1)]
    window.tokens[stale] = 0
    window.flows[:, stale] = 0
    window.newest = now_s


def add_tokens(window: Window, tenants: Ints, event_ms: Ints, charged: Ints) -> None:
    """Put tokens into the seconds in which they were used; what is too late falls by the side."""
    put_tokens(window, *spots(window, tenants, event_ms), charged)


def spots(window: Window, tenants: Ints, event_ms: Ints) -> tuple[Ints, Ints]:
    """The seconds of events, and their places in the ring, as long as it has this size."""
    seconds, second = window.flows.shape[1], event_ms // 1000
    return second, second % seconds * window.tokens.shape[1] + tenants


def put_tokens(window: Window, second: Ints, place: Ints, charged: Ints) -> None:
    """Put tokens into `spots`; what is too late falls by the side."""
    fits = (second > window.newest - window.flows.shape[1]) & (second <= window.newest)
    if not fits.all():
        place, charged = place[fits], charged[fits]
    np.add.at(window.tokens.reshape(-1), place, charged)


def add_flow(window: Window, rates: Ints, since_ms: int, until_ms: int) -> None:
    """Integrate seven constant rates (per millisecond) from `since_ms` to `until_ms`."""
    seconds = window.flows.shape[1]
    at = max(since_ms, (window.newest - seconds + 1) * 1000)
    while at < until_ms:
        end = min(until_ms, (at // 1000 + 1) * 1000)
        window.flows[:, at // 1000 % seconds] += rates * (end - at)
        at = end


def covered(window: Window, at_ms: int, window_s: int) -> tuple[Ints, Ints]:
    """The sums of `tokens` and `flows` over the window that ends at `at_ms`.

    A second just begun counts whole.
    """
    seconds = window.flows.shape[1]
    end = (at_ms - 1) // 1000 % seconds + 1
    begin = end - window_s
    tokens = window.tokens[max(begin, 0) : end].sum(axis=0)
    flows = window.flows[:, max(begin, 0) : end].sum(axis=1)
    if begin < 0:  # the ring's end comes before its beginning
        tokens += window.tokens[begin:].sum(axis=0)
        flows += window.flows[:, begin:].sum(axis=1)
    return tokens, flows
