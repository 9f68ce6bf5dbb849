"""What one vLLM server has been seen to do: the rule by which a rate is measured.

While requests wait for room at an engine it does what it can. So the rate over each `SUSTAINED_S`
in which requests waited at every scrape is one measurement, and what the engine can do is the
highest measurement of the `KEPT_S` before its newest. Without one, nothing is known; and while
nobody waits, nothing new is learnt, so what was measured last stays.
"""

from dataclasses import dataclass, replace

from tokenweir.capacity.sample import Sample
from tokenweir.records.spec import TokenWeights

SUSTAINED_S = 30.0
KEPT_S = 600.0
MOST_MISSES = 3  # scrapes in a row without an answer, and a server is down
ONE = 1_000_000


@dataclass(frozen=True, slots=True)
class Measurement:
    """Charged tokens over one stretch of full use, in milli-tokens/s."""

    at_s: float
    rate: int


@dataclass(frozen=True, slots=True)
class Engine:
    """One server, as its scrapes tell; its process may hold several engines."""

    last: Sample | None = None
    since: Sample | None = None  # the first of the scrapes in a row at which requests waited
    measured: tuple[Measurement, ...] = ()
    misses: int = 0  # in a row

    @property
    def rate(self) -> int | None:
        """Milli-tokens/s that it can do; None before the first measurement."""
        return max((found.rate for found in self.measured), default=None)

    @property
    def is_up(self) -> bool | None:
        """Whether it answers; None while that is not known yet."""
        if self.misses >= MOST_MISSES:
            return False
        return None if self.last is None else True


def missed(engine: Engine) -> Engine:
    """A scrape failed: whether requests waited meanwhile is not known."""
    return replace(engine, since=None, misses=engine.misses + 1)


def heard(engine: Engine, sample: Sample, weights: TokenWeights) -> Engine:
    """The next scrape, which may complete a measurement."""
    now = replace(engine, last=sample, misses=0)
    since = engine.since
    if not sample.saturated:
        return replace(now, since=None)
    if since is None or engine.last is None or _restarted(engine.last, sample):
        return replace(now, since=sample)
    if sample.at_s - since.at_s < SUSTAINED_S:
        return now
    found = Measurement(sample.at_s, _rate(since, sample, weights))
    kept = [old for old in engine.measured if found.at_s - old.at_s <= KEPT_S]
    return replace(now, since=sample, measured=(*kept, found))


def _restarted(before: Sample, after: Sample) -> bool:
    """Whether counters began again."""
    return after.prompt_tokens < before.prompt_tokens or after.out_tokens < before.out_tokens


def _rate(first: Sample, last: Sample, weights: TokenWeights) -> int:
    prompt = last.prompt_tokens - first.prompt_tokens
    cached = min(max(last.cached_tokens - first.cached_tokens, 0), prompt)
    out = last.out_tokens - first.out_tokens
    charged = (prompt - cached) * weights.uncached + cached * weights.cached + out * weights.out
    return round(charged / ONE * 1000 / (last.at_s - first.at_s))
