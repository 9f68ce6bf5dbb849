"""The spec of the demo's pool: the file beside this one, or one made for a trace's tenants."""

from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import yaml

from streams.demo.arrivals import Arrival
from tokenweir.records.spec import PoolSpec, ServiceClass
from tokenweir.spec import compile_spec, read_spec

GUARANTEED = 0.5  # of the capacity: the baseline of a trace's steadiest tenant
ELASTIC = 0.35  # of the capacity: the baselines of all its other tenants
ROOM = 1.25  # a trace's pool does so many times its mean load: its peaks do not fit


def demo_pool(name: str, tokens_per_s: int | None) -> PoolSpec:
    """The pool of `pool.yaml` under another name, and with another capacity if one is given."""
    return _compiled(_given() | {"pool": name}, tokens_per_s)


def trace_pool(name: str, arrivals: Sequence[Arrival], tokens_per_s: int | None) -> PoolSpec:
    """A pool for the tenants of a trace.

    The one whose load can be foreseen, because it is the steadiest, has a guarantee; the others
    are elastic. Without a capacity the pool gets one that the mean load fills to 80 %.
    """
    spec = _given() | {"pool": name, "tenants": _tenants(arrivals)}
    return _compiled(spec, tokens_per_s or round(ROOM * mean_load(arrivals)))


def mean_load(arrivals: Sequence[Arrival]) -> float:
    """Charged tokens a second over the whole run, with the weights of `pool.yaml`."""
    weights: Mapping[str, float] = _given()["token_weights"]
    kinds = ("uncached", "cached", "out")
    charged = sum(getattr(arrival, kind) * weights[kind] for arrival in arrivals for kind in kinds)
    return float(charged / max(arrivals[-1].at_us / 1e6, 1.0))


def _given() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("pool.yaml").read_text("utf-8")
    given: dict[str, Any] = yaml.safe_load(text)
    return given


def _compiled(spec: dict[str, Any], tokens_per_s: int | None) -> PoolSpec:
    if tokens_per_s is not None:
        spec = spec | {"capacity": {"tokens_per_s": tokens_per_s}}
    text = yaml.safe_dump(spec, sort_keys=False)
    return compile_spec(read_spec(text, "the demo's pool"), version=1, replaces=0, source=text)


def _tenants(arrivals: Sequence[Arrival]) -> dict[str, Any]:
    first, *others = sorted({a.tenant for a in arrivals}, key=lambda name: _unrest(arrivals, name))
    share = ELASTIC / max(len(others), 1)
    return {
        first: _tenant("guaranteed", GUARANTEED),
        **{name: _tenant("elastic", share) for name in others},
    }


def _tenant(service_class: ServiceClass, share: float) -> dict[str, str]:
    return {"class": service_class, "baseline": f"{share:.2%}"}


def _unrest(arrivals: Sequence[Arrival], tenant: str, parts: int = 200) -> float:
    """The variance of the requests in each part of the run over their mean."""
    part_us = arrivals[-1].at_us / parts + 1
    counts = Counter(int(a.at_us / part_us) for a in arrivals if a.tenant == tenant)
    mean = counts.total() / parts
    return sum((counts[part] - mean) ** 2 for part in range(parts)) / parts / mean
