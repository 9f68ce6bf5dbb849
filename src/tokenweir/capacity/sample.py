"""One scrape of a vLLM server's metrics, read into the few figures that a capacity is made of.

The names are those of vLLM's `/metrics` page, text format 0.0.4. What has changed over time:
`gpu_cache_usage_perc` became `kv_cache_usage_perc` in 0.9.2 and is gone since 0.12; series had no
label `engine` at first; `num_gpu_blocks` can be the text `None`; `kv_cache_size_tokens` and
`num_requests_waiting_by_reason` are new. A server may hold several engines (data parallelism).
Where several processes write the page, there are no values before an engine's first request: the
gauges are only declared, or (before V1) nothing but the cache's configuration is there.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from prometheus_client.parser import text_string_to_metric_families

from tokenweir.errors import BadInput

RUNNING = "vllm:num_requests_running"
WAITING = "vllm:num_requests_waiting"
WAITING_WHY = "vllm:num_requests_waiting_by_reason"  # capacity, or deferred by the scheduler's plan
PROMPT = "vllm:prompt_tokens_total"  # with those that the prefix cache had
CACHED = ("vllm:prompt_tokens_cached_total", "vllm:prefix_cache_hits_total")
GENERATED = "vllm:generation_tokens_total"
KV_USE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")  # 1 is full
KV_CONFIG = "vllm:cache_config_info"

Series = Sequence[tuple[Mapping[str, str], float]]


@dataclass(frozen=True, slots=True)
class Sample:
    """What a server says at one moment; its engines are added up. Counters since its start."""

    at_s: float  # on a monotonic clock
    engines: int
    running: int
    waiting: int
    saturated: bool  # requests wait for room at each of its engines
    prompt_tokens: int
    cached_tokens: int  # of the prompts'
    out_tokens: int
    kv_use: float | None  # the part of the KV caches in use, 0 to 1
    kv_tokens: int | None  # what the KV caches hold


def read_sample(text: str, at_s: float) -> Sample:
    """The sample that a metrics page holds; raises `BadInput` for one that makes no sense."""
    series = _begun(_series(text))
    running, waiting = _by_engine(_gauge(series, RUNNING)), _by_engine(_waiting(series))
    prompts = _by_engine(_needed(series, PROMPT))
    prompt = sum(prompts.values())
    use = [value for _, value in _first(series, KV_USE)]
    return Sample(
        at_s=at_s,
        engines=len(prompts),
        running=sum(running.values()),
        waiting=sum(waiting.values()),
        saturated=all(waiting.get(engine, 0) > 0 for engine in prompts),
        prompt_tokens=prompt,
        cached_tokens=min(_sum(_first(series, CACHED)), prompt),
        out_tokens=_sum(_needed(series, GENERATED)),
        kv_use=sum(use) / len(use) if use else None,
        kv_tokens=_kv_tokens(series.get(KV_CONFIG, ())),
    )


def _series(text: str) -> Mapping[str, Series]:
    """Our samples by name, each a finite number from 0; none of a gauge that is only declared."""
    known = {RUNNING, WAITING, WAITING_WHY, PROMPT, GENERATED, KV_CONFIG, *CACHED, *KV_USE}
    found: dict[str, list[tuple[Mapping[str, str], float]]] = defaultdict(list)
    try:
        for family in text_string_to_metric_families(text):
            if family.name in known:
                found.setdefault(family.name, [])
            for sample in family.samples:
                if sample.name in known:
                    found[sample.name].append((sample.labels, _sound(sample.name, sample.value)))
    except BadInput:
        raise
    except Exception as error:  # the parser raises whatever the text provokes
        raise BadInput(f"no Prometheus metrics: {error!r}") from error
    return found


def _begun(series: Mapping[str, Series]) -> Mapping[str, Series]:
    """With zeros for a server that says no more than what its cache is: it had no request yet."""
    if set(series) != {KV_CONFIG}:
        return series
    zeros = [(labels, 0.0) for labels, _ in series[KV_CONFIG]]
    return {**series, **dict.fromkeys((RUNNING, WAITING, PROMPT, GENERATED), zeros)}


def _sound(name: str, value: float) -> float:
    if not math.isfinite(value) or not 0 <= value < 2**63:
        raise BadInput(f"{name} is {value}: a number from 0 is allowed")
    return value


def _needed(series: Mapping[str, Series], name: str) -> Series:
    return series[name] if series.get(name) else _absent(name)


def _gauge(series: Mapping[str, Series], name: str) -> Series:
    """Without values while nothing has come: an engine that is not named has 0."""
    return series[name] if name in series else _absent(name)


def _absent(name: str) -> NoReturn:
    raise BadInput(
        f"{name} is not there: is this the /metrics page of a vLLM server, started without "
        "--disable-log-stats?"
    )


def _first(series: Mapping[str, Series], names: Iterable[str]) -> Series:
    return next((series[name] for name in names if series.get(name)), ())


def _waiting(series: Mapping[str, Series]) -> Series:
    """Who waits for room: what the scheduler has put off by its own plan is no sign of it."""
    why = series.get(WAITING_WHY, ())
    for_room = [pair for pair in why if pair[0].get("reason") == "capacity"]
    return for_room or _gauge(series, WAITING)


def _by_engine(series: Series) -> dict[str, int]:
    engines: dict[str, int] = defaultdict(int)
    for labels, value in series:
        engines[labels.get("engine", "")] += int(value)
    return engines


def _sum(series: Series) -> int:
    return sum(int(value) for _, value in series)


def _kv_tokens(series: Series) -> int | None:
    """Over all engines; None when one of them does not say.

    The engine's own figure first: blocks of hybrid models do not multiply to it. Each engine states
    the blocks of all engines of its server.
    """
    whole = _all([_number(labels.get("kv_cache_size_tokens")) for labels, _ in series])
    blocks = _all([_blocks(labels) for labels, _ in series])
    return sum(whole) if whole else max(blocks, default=None)


def _blocks(labels: Mapping[str, str]) -> int | None:
    """What they hold, in tokens."""
    blocks, size = _number(labels.get("num_gpu_blocks")), _number(labels.get("block_size"))
    return None if blocks is None or size is None else blocks * size


def _all(sizes: Sequence[int | None]) -> Sequence[int]:
    known = [size for size in sizes if size is not None]
    return known if len(known) == len(sizes) else ()


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and int(text) > 0 else None
