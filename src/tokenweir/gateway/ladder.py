"""The degrade ladder as data: what is done to a request at which tier, before it is refused.

It is the gateway's own configuration (a list, as YAML or JSON gives it); the wire carries the tier
and each class's action, and no ladder.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from tokenweir.gateway.standing import Standing
from tokenweir.records.control import Tier
from tokenweir.records.spec import Action, ServiceClass

TIERS: tuple[Tier, ...] = get_args(Tier)
ACTIONS: tuple[Action, ...] = get_args(Action)


@dataclass(frozen=True, slots=True)
class Cheaper:
    """Another model instead of the one that was asked for."""

    models: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Shorter:
    """An answer of at most so many tokens."""

    max_tokens: int


@dataclass(frozen=True, slots=True)
class Cached:
    """An answer from the callback `cache`, if it has one; `only`: the backend is not asked."""

    only: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """An answer from a callback instead of the backend: a knowledge base, a ticket."""

    callback: str


@dataclass(frozen=True, slots=True)
class Canned:
    """This text as the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Batched:
    """The batch flow, at the provider's tier of this name (OpenAI's `service_tier`)."""

    service_tier: str


@dataclass(frozen=True, slots=True)
class Spilled:
    """Another pool, as that of a pay-as-you-go provider; `model` empty: the same model."""

    pool: str
    model: str = ""


Step = Cheaper | Shorter | Cached | Asked | Canned | Batched | Spilled
Reply = Cached | Asked | Canned


@dataclass(frozen=True, slots=True)
class Rung:
    """Steps that apply from `tier` and from the class's `action` on, to `classes` (empty: all).

    `refused`: they apply to what was refused, and else before it is asked for.
    """

    steps: tuple[Step, ...]
    tier: Tier = "normal"
    action: Action = "none"
    classes: frozenset[ServiceClass] = frozenset()
    refused: bool = False

    def applies(self, standing: Standing, refused: bool) -> bool:
        """Whether it applies to a tenant that stands so."""
        return (
            self.refused == refused
            and TIERS.index(standing.tier or "normal") >= TIERS.index(self.tier)
            and ACTIONS.index(standing.action) >= ACTIONS.index(self.action)
            and (not self.classes or standing.service_class in self.classes)
        )


Ladder = tuple[Rung, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What the ladder makes of one request. `max_tokens` None: no ceiling was asked for or set.

    `replies` are tried in their order before the backend; where `answered`, instead of it.
    """

    model: str
    max_tokens: int | None
    service_tier: str = ""
    replies: tuple[Reply, ...] = ()
    answered: bool = False
    spill: Spilled | None = None
    actions: tuple[str, ...] = ()


def plan(
    ladder: Sequence[Rung],
    standing: Standing,
    model: str,
    max_tokens: int | None,
    refused: bool = False,
) -> Plan:
    """What is done to a request; where rungs differ on a model or a tier, the last one holds."""
    steps = [step for rung in ladder if rung.applies(standing, refused) for step in rung.steps]
    cheaper = [step.models[model] for step in steps if _maps(step, model)]  # type: ignore[union-attr]  # _maps says so
    ceilings = [step.max_tokens for step in steps if isinstance(step, Shorter)]
    batched = [step.service_tier for step in steps if isinstance(step, Batched)]
    spills = [step for step in steps if isinstance(step, Spilled)]
    replies = tuple(step for step in steps if isinstance(step, Reply))
    shorter = min(ceilings) if ceilings and (max_tokens or MOST) > min(ceilings) else None
    actions = (
        *(f"model={name}" for name in cheaper[-1:]),
        *((f"max_tokens={shorter}",) if shorter is not None else ()),
        *(f"service_tier={name}" for name in batched[-1:]),
    )
    return Plan(
        model=cheaper[-1] if cheaper else model,
        max_tokens=max_tokens if shorter is None else shorter,
        service_tier=batched[-1] if batched else "",
        replies=replies,
        answered=any(_instead(step) for step in replies),
        spill=spills[0] if spills else None,
        actions=actions,
    )


MOST = 1 << 50  # tokens: no ceiling


def _maps(step: Step, model: str) -> bool:
    return isinstance(step, Cheaper) and step.models.get(model, model) != model


def _instead(step: Reply) -> bool:
    """Whether the backend is not asked even where this step has no answer."""
    return not isinstance(step, Cached) or step.only
