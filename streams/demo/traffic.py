"""What real traffic looks like: figures fitted to published traces, not their data.

Lengths are quantiles of the traces, read between them on a logarithmic scale. Arrivals are batches
at random times (a compound Poisson process): the rate is the trace's mean, and the mean size of a
batch, m, makes the variance of the counts per second over their mean, 2m − 1 for geometric sizes,
what it is in the trace.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, log
from random import Random

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
APART_S = 0.03  # mean distance inside a batch: short, so that a batch lies within its second


Nine = tuple[float, float, float, float, float, float, float, float, float]


@dataclass(frozen=True, slots=True)
class Traffic:
    """One kind of traffic, as one trace shows it. Distributions are their values at `QUANTILES`."""

    source: str
    requests_per_s: float
    dispersion: float  # variance of the requests per second over their mean
    input: Nine  # tokens
    out: Nine  # tokens
    cached: Nine  # part of the input that a cache serves


def tokens_at(values: Nine, part: float) -> int:
    """The token count that a `part` (0 up to 1) of all requests stays below."""
    low, high, way = _between(values, part)
    return round(exp(log(low) * (1 - way) + log(high) * way))


def part_at(values: Nine, part: float) -> float:
    """The same for a value that may be 0, without the logarithm."""
    low, high, way = _between(values, part)
    return low * (1 - way) + high * way


def _between(values: Nine, part: float) -> tuple[float, float, float]:
    above = min(bisect_right(QUANTILES, part), len(QUANTILES) - 1)
    low, high = QUANTILES[above - 1], QUANTILES[above]
    return values[above - 1], values[above], (part - low) / (high - low)


NO_CACHE: Nine = (0, 0, 0, 0, 0, 0, 0, 0, 0)

# 19 366 requests in 58 min; means 1 155 in, 211 out.
CHAT = Traffic(
    source="Azure LLM inference trace 2023, conversation (Splitwise, ISCA '24), CC BY 4.0",
    requests_per_s=5.530,
    dispersion=1.386,
    input=(2, 181, 396, 1020, 1189, 2734, 4083, 4142, 14050),
    out=(7, 41, 85, 129, 395, 424, 451, 601, 1000),
    cached=NO_CACHE,
)
# 8 819 requests in 57 min; means 2 048 in, 28 out. Bursts: 67 requests in the busiest second.
CODE = Traffic(
    source="Azure LLM inference trace 2023, code (Splitwise, ISCA '24), CC BY 4.0",
    requests_per_s=2.566,
    dispersion=13.18,
    input=(3, 75, 578, 1469, 2745, 5186, 7302, 7436, 7437),
    out=(6, 6, 9, 13, 24, 55, 90, 252, 1899),
    cached=NO_CACHE,
)
# 12 031 requests in 59 min; means 12 035 in, 343 out; 37 % of the input stands in the cache.
LONG_CHAT = Traffic(
    source="Mooncake conversation trace (FAST '25), Apache-2.0",
    requests_per_s=3.401,
    dispersion=7.894,
    input=(891, 901, 2307, 6909, 15366, 27367, 39549, 85401, 126195),
    out=(1, 10, 157, 350, 472, 597, 698, 1120, 2000),
    cached=(0.0, 0.018, 0.069, 0.363, 0.712, 0.948, 0.976, 0.999, 1.0),
)


def times(traffic: Traffic, rate: float, until_s: float, random: Random) -> Iterator[float]:
    """Arrival times below `until_s` at `rate` requests/s, as bursty as the trace; not in order."""
    size = (traffic.dispersion + 1) / 2
    batch_s = 0.0
    while (batch_s := batch_s + random.expovariate(rate / size)) < until_s:
        at_s = batch_s
        while at_s < until_s:
            yield at_s
            if random.random() < 1 / size:
                break
            at_s += random.expovariate(1 / APART_S)


def lengths(traffic: Traffic, random: Random) -> tuple[int, int, int]:
    """One request's uncached, cached and output tokens."""
    tokens = tokens_at(traffic.input, random.random())
    cached = int(tokens * part_at(traffic.cached, random.random()))
    return tokens - cached, cached, tokens_at(traffic.out, random.random())


def mean_tokens(traffic: Traffic, steps: int = 2000) -> tuple[float, float, float]:
    """The means of uncached, cached and output tokens a request, from the fitted figures."""
    parts = [(step + 0.5) / steps for step in range(steps)]
    tokens = sum(tokens_at(traffic.input, part) for part in parts) / steps
    cached = sum(part_at(traffic.cached, part) for part in parts) / steps
    out = sum(tokens_at(traffic.out, part) for part in parts) / steps
    return tokens * (1 - cached), tokens * cached, out
