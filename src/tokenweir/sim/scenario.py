"""A scenario as people write it: its fields, what each may be, its default and what it means.

`docs/simulator.md` explains them. Times are read into ms, the pool as `tokenweir.spec` reads it.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import GetCoreSchemaHandler, model_validator
from pydantic_core import CoreSchema, core_schema

from tokenweir.records.usage import Flow
from tokenweir.spec.model import Fields, Pool, Text, default, required
from tokenweir.spec.quantity import RATE, Quantity, count, duration
from tokenweir.spec.quantity import number as plain_number

Arrivals = Literal["poisson", "regular", "closed", "trace"]
Strategy = Literal["tokenweir", "none", "static-split", "round-robin", "static-weights"]
Time = Annotated[int, duration("0 s", "1000 h")]


@dataclass(frozen=True, slots=True)
class Real:
    """Reads a number between bounds as a float."""

    least: float
    most: float

    @property
    def allowed(self) -> str:
        """What may stand there."""
        return f"a number from {self.least:g} to {self.most:g}"

    def read(self, value: object) -> float:
        """The number; raises `ValueError` with `allowed`."""
        number = plain_number(value)
        if number is None or not self.least <= number <= self.most:
            raise ValueError(self.allowed)
        return float(number)

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """A field of this kind is read by `read` alone."""
        return core_schema.no_info_plain_validator_function(self.read)


@dataclass(frozen=True, slots=True)
class Words:
    """Reads a text; a number stands for itself."""

    allowed: str = "a text"

    def read(self, value: object) -> str:
        """The text; raises `ValueError` with `allowed`."""
        if not isinstance(value, (str, int, Decimal)):
            raise ValueError(self.allowed)
        return str(value)

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """A field of this kind is read by `read` alone."""
        return core_schema.no_info_plain_validator_function(self.read)


def upto(most: int) -> Quantity:
    """How many, from 0."""
    return Quantity(f"a whole number from 0 to {most}", {"": Decimal(1)}, 0, most, whole=True)


Prose = Annotated[str, Words()]
Number = Annotated[float, Real(0, 1e9)]
Bound = Annotated[float, Real(-1e15, 1e15)]
Count = Annotated[int, count(10**9)]
Priority = Annotated[int, count(3)]


class Lengths(Fields):
    """How many tokens: log-normal with this mean and spread. A number alone is that length."""

    mean: Annotated[float, Real(1, 1e6)] = required("Tokens on average.")
    cv: Annotated[float, Real(0, 10)] = default(0, "Standard deviation over mean.")
    most: Annotated[int, count(10**7)] = default(
        1_000_000, "No longer than that. For outputs it is the request's max_tokens."
    )

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        """Let a number alone stand for a fixed length."""
        if plain_number(value) is None:
            return value
        return {"mean": value, "most": value}


class Wave(Fields):
    """A square wave: the second half of each period has another rate."""

    period: Time = required("Of both halves together.")
    rate: Number = required("Requests a second in the second half.")


class Bursts(Fields):
    """On and off by chance: exponential times with these means; nothing comes while off."""

    on: Time = required("Mean length of a burst.")
    off: Time = required("Mean pause between bursts.")


class Trace(Fields):
    """Arrivals from a file: CSV, may be gzipped, with columns t_s, input_tokens, output_tokens."""

    file: Prose = required("Its path, from where the command runs.")
    client: Prose | None = default(None, "Only rows with this in column client.")
    speed: Annotated[float, Real(0.001, 1e6)] = default(1, "2: twice as fast as it was.")


class Workload(Fields):
    """What one tenant sends. Its load is the same in all runs of one seed."""

    arrivals: Arrivals = default(
        "poisson", "poisson or regular: `rate` a second; closed: `clients`; trace: from a file."
    )
    rate: Number = default(0, "Requests a second.")
    clients: Annotated[int, upto(10**6)] = default(
        0, "closed: each sends its next request when it has the answer to the last."
    )
    think: Time = default("0 s", "closed: mean pause before the next request, exponential.")
    during: dict[Text, Number] = default({}, "Another rate, or number of clients, in a phase.")
    wave: Wave | None = default(None, "A square wave of the rate.")
    bursts: Bursts | None = default(None, "On and off; `rate` is that while on.")
    trace: Trace | None = default(None, "Where the arrivals come from.")
    starts: Time = default("0 s", "Nothing before.")
    ends: Time | None = default(None, "Nothing from then on.")
    count: Count | None = default(None, "So many requests in all.")
    prompt: Lengths = default({"mean": 512, "most": 512}, "Input tokens.")
    output: Lengths = default({"mean": 128, "most": 128}, "Output tokens.")
    priority: Priority = default(2, "Inside its tenant.")
    flow: Flow = default("online", "online or batch.")
    timeout: Time | None = default(None, "The longest wait at a gateway; left out: its class's.")
    streams: bool = default(True, "Gateways report tokens as they come, not when all are there.")
    retries: Annotated[int, upto(10**6)] = default(
        0, "How often a refused request is tried again, each time after the Retry-After."
    )
    degrade: dict[Literal["soft_degrade", "hard_degrade", "circuit_break"], Number] = default(
        {}, "In a tier, the part of its tokens that a request needs; 0: answered without the model."
    )


class Crowd(Fields):
    """Many tenants that are alike: NAME-00001 and so on; figures name them NAME-*."""

    size: Annotated[int, count(100_000)] = required("How many.")
    tenant: dict[str, Any] = default({}, "The entitlement of each, as in a pool's `tenants`.")
    workload: dict[str, Any] = required("What each sends, as in `workloads`.")


class Gpu(Fields):
    """The backend."""

    profile: Literal["llama2-70b-h100", "llama2-70b-a100"] = default(
        "llama2-70b-h100", "Measured figures of one replica: eight GPUs."
    )
    replicas: Annotated[int, count(10_000)] = default(1, "How many there are.")
    slots: Count | None = default(None, "Sequences of a replica; left out: the profile's.")
    prefill_tokens_per_s: Number | None = default(None, "Instead of the profile's.")
    step_ms: Number | None = default(None, "Instead of the profile's: decode step of one.")
    per_sequence_ms: Number | None = default(None, "Instead of the profile's: for each further.")
    kv_tokens: Count | None = default(None, "Instead of the profile's.")
    kv_bytes: Annotated[int, upto(10**7)] = default(
        0, "KV-cache bytes a token that requests tell their gateway; 0: none."
    )


class Network(Fields):
    """The gateways and how far away the log is."""

    gateways: Annotated[int, count(1000)] = default(2, "How many gateways.")
    report: Time = default("5 ms", "From a gateway to the log, and the acknowledgement back.")
    control: Time = default("10 ms", "From the log through a decision to a gateway.")


class Phase(Fields):
    """A named part of the time."""

    starts: Time = required("From.", alias="from")
    ends: Time = required("To, not included.", alias="to")


class Event(Fields):
    """Something that happens once."""

    at: Time = required("When.")
    replicas: Annotated[int, upto(10**4)] | None = default(None, "The backend has so many.")
    capacity: Annotated[int, RATE] | None = default(None, "A CapacityReport says so.")
    cut: list[Annotated[int, upto(1000)]] = default([], "These gateways (0, 1, …) lose Kafka.")
    heal: list[Annotated[int, upto(1000)]] = default([], "These have it again.")


class Run(Fields):
    """One way to run the load."""

    strategy: Strategy = default("tokenweir", "What admits.")
    only: list[Prose] = default([], "Only these tenants' workloads; left out: all.")
    set: dict[str, Any] = default({}, "Fields of the scenario that are otherwise in this run.")
    weights: dict[Text, Annotated[int, count(1000)]] = default(
        {}, "Weights of tenants for static-split and static-weights; left out: 1."
    )
    hold: Time = default("100 ms", "round-robin, static-weights: how long an idle turn is kept.")


class Figure(Fields):
    """A figure to compute, and what it must be."""

    value: Prose = required("An expression over measures: {RUN TENANT MEASURE PHASE}.")
    unit: Prose = default("", "For people.")
    published: Prose = default("", "What the source says.")
    least: Bound | None = default(None, "It is at least that.")
    most: Bound | None = default(None, "It is at most that.")


class Scenario(Fields):
    """A scenario."""

    scenario: Text = required("Its name.")
    about: Prose = default("", "What it shows, in a sentence or two.")
    notes: Prose = default("", "What a reader of the figures must know.")
    pool: Pool = required("The pool, as `tokenweir apply` takes it.")
    gpu: Gpu = default({}, "The backend.")
    network: Network = default({}, "The gateways.")
    workloads: dict[Text, Workload] = default({}, "What each tenant sends.")
    crowds: dict[Text, Crowd] = default({}, "Many tenants that are alike.")
    phases: dict[Text, Phase] = default({}, "Named parts of the time; `all` is the whole.")
    events: list[Event] = default([], "What happens.")
    duration: Time = required("How long it lasts.")
    warmup: Time = default("5 s", "Before the start: gateways and control plane without load.")
    seed: Annotated[int, upto(2**32)] = default(1, "Of all chance.")
    runs: dict[Text, Run] = default({"with": {}}, "The runs: a name and its fields.")
    figures: dict[Text, Figure] = default({}, "What is computed: a name and its fields.")
    plot: list[
        Literal["ttft", "tokens", "refused", "queue", "weight", "grant", "level", "running"]
    ] = default(["ttft", "tokens", "queue"], "The rows of the plot.")
    drawn: Phase | None = default(None, "The part of the time that the plot shows; left out: all.")
    quick: dict[str, Any] = default({}, "Fields that are otherwise in the scaled-down size.")
