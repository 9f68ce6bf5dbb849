"""A pool's spec as people write it: its fields, what each may be, its default and what it means.

Values are read into the integers of the wire: rates in milli-tokens/s, times in ms (window and
grace in s), ratios and factors in millionths. `docs/spec.md` lists these fields.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from tokenweir.records.spec import Action, BreakerRefuses, Cycle, Mode, OnSilence, ServiceClass
from tokenweir.spec.calendar import CycleName, WeekTimes, ZoneName
from tokenweir.spec.name import POOL, TENANT, TEXT
from tokenweir.spec.quantity import (
    BYTES,
    FACTOR,
    RATE,
    SOME_RATE,
    TOKENS,
    WEIGHT,
    WHOLE_TOKENS,
    count,
    duration,
    ratio,
)


@dataclass(frozen=True, slots=True)
class Baseline:
    """What is reserved: a rate in milli-tokens/s, or else a share of the capacity in millionths."""

    rate: int
    share: int | None


SHARE = ratio("0%", "100%")


@dataclass(frozen=True, slots=True)
class RateOrShare:
    """Reads a `Baseline`: a share where there is a percent sign, else a rate."""

    allowed: str = f"{RATE.allowed}; or a share of the capacity: 20%"

    def read(self, value: object) -> Baseline:
        """The baseline that `value` says; raises `ValueError` with `allowed`."""
        try:
            if isinstance(value, str) and value.rstrip().endswith("%"):
                return Baseline(0, SHARE.read(value))
            return Baseline(RATE.read(value), None)
        except ValueError as error:
            raise ValueError(self.allowed) from error

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """A field of this kind is read by `read` alone."""
        return core_schema.no_info_plain_validator_function(self.read)


def required(meaning: str, alias: str | None = None) -> Any:
    """A field that must be there."""
    return Field(description=meaning, alias=alias)


def default(value: object, meaning: str, alias: str | None = None) -> Any:
    """A field with a default, written as in the YAML."""
    return Field(value, description=meaning, alias=alias)


Factor = Annotated[int, FACTOR]
Level = Annotated[int, ratio("0", "2")]
Part = Annotated[int, ratio("0", "1")]
LongTime = Annotated[int, duration("1 s", "24 h")]
ZoneField = Annotated[str, ZoneName()]
Text = Annotated[str, TEXT]


class Fields(BaseModel):
    """A mapping in the spec: closed, and never changed."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, validate_default=True)


class Capacity(Fields):
    """What the pool can do."""

    tokens_per_s: Annotated[int, SOME_RATE] = required("Charged tokens a second that it can serve.")
    kv_bytes: Annotated[int, BYTES] | None = default(
        None, "Memory of its KV cache; left out: not limited."
    )
    sequences: Annotated[int, count(10**9)] | None = default(
        None, "Requests that run at the same time; left out: not limited."
    )


class TokenWeights(Fields):
    """Charged tokens of one token of each kind."""

    uncached: Factor = default(1, "One input token that was not in a cache.")
    cached: Factor = default(1, "One input token that came from a cache.")
    out: Factor = default(1, "One output token.")


class Tiers(Fields):
    """At which water level the pool degrades, and how calmly it changes its mind."""

    soft: Level = default("0.7", "From this smoothed level on: soft_degrade.")
    hard: Level = default("0.9", "From this smoothed level on: hard_degrade.")
    circuit_break: Level = default("1", "From this level on: the breaker opens.", alias="break")
    margin: Annotated[int, ratio("0", "0.5")] = default(
        "0.05", "How far below its threshold a tier ends."
    )
    rise: Annotated[int, count(100)] = default(
        2, "Decisions that the level must hold for a tier to rise."
    )
    dwell: Annotated[int, duration("0 s", "1 h")] = default(
        "10 s", "How long the level must stay below for a tier to end."
    )


class Smoothing(Fields):
    """How fast smoothed figures follow; for one second, whatever the interval."""

    rate: Annotated[int, ratio("0.001", "1")] = default(
        "0.3", "λ: the weight of the last second in smoothed rates and levels."
    )
    debt: Annotated[int, ratio("0.001", "1")] = default(
        "0.1", "μ: the weight of the last second in the debt of elastic tenants."
    )


class WeightFactors(Fields):
    """What changes a tenant's weight beside its class."""

    slo: Factor = default("0.131", "a_slo: a loose SLO lowers the weight.")
    burst: Factor = default("0.1", "a_burst: a lasting burst lowers the weight.")
    debt: Factor = default(4, "a_debt: debt raises the weight of elastic tenants.")


class ClassFields(Fields):
    """The terms of one class; what is left out has the class's own default."""

    weight: Annotated[int, WEIGHT] | None = default(None, "Who goes first under scarcity.")
    alpha: Part | None = default(None, "The class's own α; left out: the pool's.")
    share_cap: Part | None = default(
        None, "The most of the capacity that the class may have together."
    )
    starter: Part | None = default(
        None, "The most of a gateway's starter pot that one tenant may take."
    )
    longest_wait: Annotated[int, duration("0 s", "10 min")] | None = default(
        None, "How long a request may wait for tokens before it is refused."
    )
    on_silence: OnSilence | None = default(
        None,
        "What a gateway may do after a lease has expired: use the floor for a while, "
        "refuse, or allow (which can exceed the capacity).",
    )
    soft: Action | None = default(None, "What happens to it in soft_degrade.")
    hard: Action | None = default(None, "What happens to it in hard_degrade.")


class Classes(Fields):
    """The five classes, highest first."""

    dedicated: ClassFields = default(ClassFields(), "Its baseline, always, never lent.")
    guaranteed: ClassFields = default(ClassFields(), "Its baseline whenever it asks.")
    elastic: ClassFields = default(ClassFields(), "Its baseline, on average.")
    spot: ClassFields = default(ClassFields(), "What others leave.")
    preemptible: ClassFields = default(
        ClassFields(), "What others leave; running work may be suspended."
    )


class Quota(Fields):
    """What may be spent in one cycle of the calendar."""

    per: Annotated[Cycle, CycleName()] = required("Its cycle: the calendar's, in `zone`.")
    tokens: Annotated[int, WHOLE_TOKENS] = required("Charged tokens that may be spent in a cycle.")
    zone: ZoneField = default("UTC", "Whose calendar it follows.")
    rollover: Annotated[int, WHOLE_TOKENS] | None = default(
        None, "The most of an unspent cycle that the next one may spend too; left out: nothing."
    )
    lend: bool = default(
        False, "true: what the cycle will leave may be spent by the pool's other tenants."
    )
    across: bool = default(
        False, "true: one quota over all pools that name this tenant with `across`."
    )


class User(Fields):
    """The terms of one user or key inside a tenant."""

    weight: Annotated[int, WEIGHT] = default(1, "Its share of the tenant's lease.")
    quotas: list[Quota] = default([], "Its own quotas, one a cycle.")


class Tenant(Fields):
    """A tenant's claim on the pool."""

    service_class: ServiceClass = required("Its class.", alias="class")
    baseline: Annotated[Baseline, RateOrShare()] = default(
        0, "What is reserved for it; not for spot and preemptible."
    )
    borrow_cap: Annotated[int, RATE] | None = default(
        None, "The most that it gets above its baseline; left out: not limited."
    )
    lend_cap: Annotated[int, RATE] | None = default(
        None, "The most of its idle baseline that is lent; left out: α of it."
    )
    slo: Annotated[int, duration("1 ms", "1 h")] = default(
        "1 s", "Its target for the time to the first token."
    )
    suspended: bool = default(False, "true: it gets nothing.")
    on_silence: OnSilence | None = default(None, "Instead of its class's on_silence.")
    sequences: Annotated[int, count(10**9)] | None = default(
        None, "Sequences reserved for it; left out: in proportion to the baseline."
    )
    sequence_cap: Annotated[int, count(10**9)] | None = default(
        None, "The most sequences that it runs; left out: not limited."
    )
    kv_bytes: Annotated[int, BYTES] | None = default(
        None, "KV cache reserved for it; left out: in proportion to the baseline."
    )
    kv_cap: Annotated[int, BYTES] | None = default(
        None, "The most KV cache that it fills; left out: not limited."
    )
    quotas: list[Quota] = default([], "What it may spend in cycles of the calendar, one a cycle.")
    user_quotas: list[Quota] = default([], "The same for each user that has no quotas of its own.")
    users: dict[Annotated[str, TENANT], User] = default({}, "Users or keys with their own terms.")
    tags: dict[Text, Text] = default(
        {}, "For showback: team: search. Refusals tell raise_limit_url, where its limit is raised."
    )


class Unknown(Fields):
    """Tenants that the spec does not name; they share one allowance."""

    service_class: Literal["preemptible", "spot", "elastic"] = default(
        "spot", "Their class.", alias="class"
    )


class Breaker(Fields):
    """The emergency brake, for when grants did not keep use within the capacity."""

    refuses: BreakerRefuses = default(
        "borrowers", "Whom it refuses while it is open: borrowers (floors pass), or all."
    )
    cool_off: Annotated[int, duration("1 s", "1 h")] = default("10 s", "How long it stays open.")
    longest_cool_off: Annotated[int, duration("1 s", "24 h")] = default(
        "5 min", "How long at most: each relapse doubles."
    )
    probe: Annotated[int, ratio("0", "0.5")] = default(
        "0.05", "The part of the capacity that borrowers may probe with while it is half open."
    )
    error_rate: Annotated[int, ratio("0.001", "1")] = default(
        "0.1", "The part of failed requests from which on the probes have failed."
    )


class Reclaim(Fields):
    """How fast owners get back what others borrowed."""

    beta: Annotated[int, ratio("0.01", "1")] = default(
        "0.3", "β: the most of what somebody borrowed that one decision takes back."
    )
    cool_down: Annotated[int, duration("0 s", "1 h")] = default(
        "5 s", "How long a borrower is left alone after a reclaim; core floors do not wait."
    )
    resume: Annotated[int, duration("1 s", "1 h")] = default(
        "60 s", "After which revoked preemptible work may go on."
    )


class Tuning(Fields):
    """The slow loop that fits α and limits to what is seen."""

    every: Annotated[int, duration("1 s", "24 h")] = default("60 s", "Between two looks.")
    cool_down: Annotated[int, duration("0 s", "24 h")] = default(
        "5 min", "How long whatever was changed is left alone."
    )
    alpha_least: Part = default("0", "α is not lowered below it.")
    alpha_most: Annotated[int, ratio("0", "0.95")] = default("0.95", "α is not raised above it.")
    limits_most: Annotated[int, FACTOR] = default(
        1, "Quotas and borrow caps are not raised above this multiple of what the spec says."
    )


class Scheduled(Fields):
    """What the pool can do from a time of the week on."""

    at: Annotated[tuple[int, ...], WeekTimes()] = required("From when on: Mon-Fri 08:00.")
    zone: ZoneField = default("UTC", "Whose calendar it follows.")
    tokens_per_s: Annotated[int, SOME_RATE] | None = default(None, "As in `capacity`.")
    kv_bytes: Annotated[int, BYTES] | None = default(None, "As in `capacity`.")
    sequences: Annotated[int, count(10**9)] | None = default(None, "As in `capacity`.")


class Pool(Fields):
    """One pool."""

    pool: Annotated[str, POOL] = required("The pool's name.")
    mode: Mode = default("enforce", "shadow: decide and publish, and gateways only count.")
    capacity: Capacity = required("What the pool can do.")
    interval: Annotated[int, duration("250 ms", "1 min")] = default("1 s", "Between two decisions.")
    window: Annotated[int, duration("1 s", "1 h", whole="s")] = default(
        "60 s", "Over which use is compared with the budget; whole seconds."
    )
    grace: Annotated[int, duration("0 s", "10 min", whole="s")] = default(
        "10 s", "How much later than the window a report may come; whole seconds."
    )
    lease: LongTime = default("15 s", "How long a gateway's lease lives.")
    silent_floor: LongTime = default("10 min", "How long a silent gateway may use its floors.")
    longest_request: LongTime = default("10 min", "Gateways end a request that runs longer.")
    burst: Annotated[int, TOKENS] | None = default(
        None, "The bursts of all leases together; left out: one interval of capacity."
    )
    token_weights: TokenWeights = default(
        TokenWeights(), "Charged tokens of one token of each kind."
    )
    ceiling: Annotated[int, ratio("0.1", "1")] = default(
        "0.95", "The most of the capacity that is granted."
    )
    pots: Annotated[int, ratio("0", "0.5")] = default(
        "0.05", "The part of the capacity kept for the gateways' starter pots."
    )
    alpha: Part = default("0.8", "α: the part of idle reserved capacity that is lent.")
    tiers: Tiers = default(Tiers(), "When the pool degrades.")
    smoothing: Smoothing = default(Smoothing(), "How fast smoothed figures follow.")
    weights: WeightFactors = default(WeightFactors(), "What changes a tenant's weight.")
    classes: Classes = default(Classes(), "The terms of the classes.")
    breaker: Breaker = default(Breaker(), "The emergency brake.")
    reclaim: Reclaim = default(Reclaim(), "How fast owners get back what others borrowed.")
    tuning: Tuning | None = default(
        None, "The slow loop that fits α and limits to what is seen; left out: nothing is tuned."
    )
    schedule: list[Scheduled] = default(
        [], "Capacity that follows the week; what is reported or set holds until its next time."
    )
    tenants: dict[Annotated[str, TENANT], Tenant] = default(
        {}, "Who is entitled: a name and its fields."
    )
    unknown: Unknown = default(Unknown(), "Tenants that are not named.")
