"""How much output to expect: a quantile of what a tenant's requests to a model produced before.

Integers only, and nothing random: the same requests give the same estimates.
"""

from collections import OrderedDict

QUANTILE = 90  # percent of outputs that are no longer than the estimate
LEAST = 9  # outputs to have seen: one more is above the longest of nine in 10 % of all cases
MOST = 1_024  # when so many are counted, all counts are halved: the newest weigh most
MOST_KEYS = 10_000  # (tenant, model) pairs that are remembered; the longest unused is forgotten
UNKNOWN_OUT = 512  # tokens expected when nothing has been seen and no `max_tokens` is given
STEPS = 16  # buckets an octave


class Outputs:
    """The lengths of one kind of answer, in buckets of up to 1/16 of their value.

    `quantile` is the upper edge of the bucket that holds the true quantile of the (halved) counts:
    never below it, and above it by less than 1/16, or by nothing up to 31 tokens. The true one is
    of those seen and one more, the longest of all: so the next answer, if it is like them, is
    within it as often as it says, however few were seen.
    """

    __slots__ = ("_counts", "_total")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._total = 0

    def add(self, tokens: int) -> None:
        """An answer had this length."""
        bucket = _bucket(tokens)
        self._counts[bucket] = self._counts.get(bucket, 0) + 1
        self._total += 1
        if self._total >= MOST:
            halved = {bucket: count // 2 for bucket, count in self._counts.items() if count > 1}
            self._counts, self._total = halved, sum(halved.values())

    def quantile(self, percent: int) -> int | None:
        """Tokens that so many percent of answers do not exceed; None: too few were seen."""
        if self._total < LEAST:
            return None
        rest = min(-(-(self._total + 1) * percent // 100), self._total)  # its rank
        for bucket in sorted(self._counts):
            rest -= self._counts[bucket]
            if rest <= 0:
                return _edge(bucket)
        raise AssertionError("counts add up to the total")


class Estimates:
    """The outputs of each (tenant, model), a bounded number of them."""

    __slots__ = ("_kinds", "_most")

    def __init__(self, most: int = MOST_KEYS) -> None:
        self._kinds: OrderedDict[tuple[str, str], Outputs] = OrderedDict()
        self._most = most

    def __len__(self) -> int:
        return len(self._kinds)

    def observe(self, tenant: str, model: str, out: int) -> None:
        """A request has produced so much."""
        key = (tenant, model)
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = Outputs()
            if len(self._kinds) > self._most:
                self._kinds.popitem(last=False)
        else:
            self._kinds.move_to_end(key)
        kind.add(out)

    def expected(self, tenant: str, model: str, max_tokens: int | None) -> int:
        """Output tokens to hold for a request: the quantile, `max_tokens` at most."""
        kind = self._kinds.get((tenant, model))
        seen = kind.quantile(QUANTILE) if kind is not None else None
        if seen is None:
            return UNKNOWN_OUT if max_tokens is None else max_tokens
        return seen if max_tokens is None else min(seen, max_tokens)


def _bucket(tokens: int) -> int:
    """0 to 31 each for itself; then 16 an octave."""
    if tokens < 2 * STEPS:
        return tokens
    octave = tokens.bit_length() - STEPS.bit_length()
    return octave * STEPS + (tokens >> octave)


def _edge(bucket: int) -> int:
    """The largest number in a bucket."""
    if bucket < 2 * STEPS:
        return bucket
    octave = bucket // STEPS - 1
    return ((bucket - octave * STEPS + 1) << octave) - 1
