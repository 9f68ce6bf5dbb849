"""A pool's spec as people write it: its fields, what each may be, its default and what it means.

Values are read into the integers of the wire: rates in milli-tokens/s, times in ms (window and
grace in s), ratios and factors in millionths. `docs/spec.md` lists these fields.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from tokenweir.records.spec import Action, Mode, OnSilence, ServiceClass
from tokenweir.spec.name import POOL, TENANT, TEXT
from tokenweir.spec.quantity import (
    BYTES,
    FACTOR,
    RATE,
    SOME_RATE,
    TOKENS,
    WEIGHT,
    Quantity,
    count,
    duration,
    ratio,
)


@dataclass(frozen=True, slots=True)
class Baseline:
    """What is reserved: a rate in milli-tokens/s, or else a share of the capacity in millionths."""

    rate: int
    share: int | None


@dataclass(frozen=True, slots=True)
class RateOrShare:
    """Reads a `Baseline`: a share where there is a percent sign, else a rate."""

    share: Quantity = ratio("0%", "100%")
    allowed: str = f"{RATE.allowed}; or a share of the capacity: 20%"

    def read(self, value: object) -> Baseline:
        """The baseline that `value` says; raises `ValueError` with `allowed`."""
        try:
            if isinstance(value, str) and value.rstrip().endswith("%"):
                return Baseline(0, self.share.read(value))
            return Baseline(RATE.read(value), None)
        except ValueError as error:
            raise ValueError(self.allowed) from error

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """A field of this kind is read by `read` alone."""
        return core_schema.no_info_plain_validator_function(self.read)


Factor = Annotated[int, FACTOR]
Level = Annotated[int, ratio("0", "2")]
Part = Annotated[int, ratio("0", "1")]
LongTime = Annotated[int, duration("1 s", "24 h")]
Text = Annotated[str, TEXT]


class Fields(BaseModel):
    """A mapping in the spec: closed, and never changed."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, validate_default=True)


class Capacity(Fields):
    """What the pool can do."""

    tokens_per_s: Annotated[int, SOME_RATE] = Field(
        description="Charged tokens a second that it can serve."
    )
    kv_bytes: Annotated[int, BYTES] | None = Field(
        None, description="Memory of its KV cache; left out: not limited."
    )
    sequences: Annotated[int, count(10**9)] | None = Field(
        None, description="Requests that run at the same time; left out: not limited."
    )


class TokenWeights(Fields):
    """Charged tokens of one token of each kind."""

    uncached: Factor = Field(1, description="One input token that was not in a cache.")
    cached: Factor = Field(1, description="One input token that came from a cache.")
    out: Factor = Field(1, description="One output token.")


class Tiers(Fields):
    """At which water level the pool degrades, and how calmly it changes its mind."""

    soft: Level = Field("0.7", description="From this smoothed level on: soft_degrade.")
    hard: Level = Field("0.9", description="From this smoothed level on: hard_degrade.")
    circuit_break: Level = Field(
        "1", alias="break", description="From this level on: the breaker opens."
    )
    margin: Annotated[int, ratio("0", "0.5")] = Field(
        "0.05", description="How far below its threshold a tier ends."
    )
    rise: Annotated[int, count(100)] = Field(
        2, description="Decisions that the level must hold for a tier to rise."
    )
    dwell: Annotated[int, duration("0 s", "1 h")] = Field(
        "10 s", description="How long the level must stay below for a tier to end."
    )


class Smoothing(Fields):
    """How fast smoothed figures follow; for one second, whatever the interval."""

    rate: Annotated[int, ratio("0.001", "1")] = Field(
        "0.3", description="λ: the weight of the last second in smoothed rates and levels."
    )
    debt: Annotated[int, ratio("0.001", "1")] = Field(
        "0.1", description="μ: the weight of the last second in the debt of elastic tenants."
    )


class WeightFactors(Fields):
    """What changes a tenant's weight beside its class."""

    slo: Factor = Field("0.131", description="a_slo: a loose SLO lowers the weight.")
    burst: Factor = Field("0.1", description="a_burst: a lasting burst lowers the weight.")
    debt: Factor = Field(4, description="a_debt: debt raises the weight of elastic tenants.")


class ClassFields(Fields):
    """The terms of one class; what is left out has the class's own default."""

    weight: Annotated[int, WEIGHT] | None = Field(
        None, description="Who goes first under scarcity."
    )
    alpha: Part | None = Field(
        None, description="The class's own α; left out: the pool's."
    )
    share_cap: Part | None = Field(
        None, description="The most of the capacity that the class may have together."
    )
    starter: Part | None = Field(
        None, description="The most of a gateway's starter pot that one tenant may take."
    )
    longest_wait: Annotated[int, duration("0 s", "10 min")] | None = Field(
        None, description="How long a request may wait for tokens before it is refused."
    )
    on_silence: OnSilence | None = Field(
        None,
        description="What a gateway may do after a lease has expired: use the floor for a while, "
        "refuse, or allow (which can exceed the capacity).",
    )
    soft: Action | None = Field(None, description="What happens to it in soft_degrade.")
    hard: Action | None = Field(None, description="What happens to it in hard_degrade.")


class Classes(Fields):
    """The five classes, highest first."""

    dedicated: ClassFields = Field(ClassFields(), description="Its baseline, always, never lent.")
    guaranteed: ClassFields = Field(ClassFields(), description="Its baseline whenever it asks.")
    elastic: ClassFields = Field(ClassFields(), description="Its baseline, on average.")
    spot: ClassFields = Field(ClassFields(), description="What others leave.")
    preemptible: ClassFields = Field(
        ClassFields(), description="What others leave; running work may be suspended."
    )


class Tenant(Fields):
    """A tenant's claim on the pool."""

    service_class: ServiceClass = Field(alias="class", description="Its class.")
    baseline: Annotated[Baseline, RateOrShare()] = Field(
        0, description="What is reserved for it; not for spot and preemptible."
    )
    borrow_cap: Annotated[int, RATE] | None = Field(
        None, description="The most that it gets above its baseline; left out: not limited."
    )
    lend_cap: Annotated[int, RATE] | None = Field(
        None, description="The most of its idle baseline that is lent; left out: α of it."
    )
    slo: Annotated[int, duration("1 ms", "1 h")] = Field(
        "1 s", description="Its target for the time to the first token."
    )
    suspended: bool = Field(False, description="true: it gets nothing.")
    on_silence: OnSilence | None = Field(None, description="Instead of its class's on_silence.")
    tags: dict[Text, Text] = Field({}, description="For showback: team: search.")


class Unknown(Fields):
    """Tenants that the spec does not name; they share one allowance."""

    service_class: Literal["preemptible", "spot", "elastic"] = Field(
        "spot", alias="class", description="Their class."
    )


class Pool(Fields):
    """One pool."""

    pool: Annotated[str, POOL] = Field(description="The pool's name.")
    mode: Mode = Field(
        "enforce", description="shadow: decide and publish, and gateways only count."
    )
    capacity: Capacity = Field(description="What the pool can do.")
    interval: Annotated[int, duration("250 ms", "1 min")] = Field(
        "1 s", description="Between two decisions."
    )
    window: Annotated[int, duration("1 s", "1 h", whole="s")] = Field(
        "60 s", description="Over which use is compared with the budget; whole seconds."
    )
    grace: Annotated[int, duration("0 s", "10 min", whole="s")] = Field(
        "10 s", description="How much later than the window a report may come; whole seconds."
    )
    lease: LongTime = Field("15 s", description="How long a gateway's lease lives.")
    silent_floor: LongTime = Field(
        "10 min", description="How long a silent gateway may use its floors."
    )
    longest_request: LongTime = Field(
        "10 min", description="Gateways end a request that runs longer."
    )
    burst: Annotated[int, TOKENS] | None = Field(
        None, description="The bursts of all leases together; left out: one interval of capacity."
    )
    token_weights: TokenWeights = Field(
        TokenWeights(), description="Charged tokens of one token of each kind."
    )
    ceiling: Annotated[int, ratio("0.1", "1")] = Field(
        "0.95", description="The most of the capacity that is granted."
    )
    pots: Annotated[int, ratio("0", "0.5")] = Field(
        "0.05", description="The part of the capacity kept for the gateways' starter pots."
    )
    alpha: Part = Field("0.8", description="α: the part of idle reserved capacity that is lent.")
    tiers: Tiers = Field(Tiers(), description="When the pool degrades.")
    smoothing: Smoothing = Field(Smoothing(), description="How fast smoothed figures follow.")
    weights: WeightFactors = Field(WeightFactors(), description="What changes a tenant's weight.")
    classes: Classes = Field(Classes(), description="The terms of the classes.")
    tenants: dict[Annotated[str, TENANT], Tenant] = Field(
        {}, description="Who is entitled: a name and its fields."
    )
    unknown: Unknown = Field(Unknown(), description="Tenants that are not named.")
