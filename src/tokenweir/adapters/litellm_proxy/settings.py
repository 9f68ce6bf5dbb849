"""What the callback is told, checked whole; and who a request is charged to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tokenweir.errors import BadInput
from tokenweir.gateway import OnRevoke
from tokenweir.gateway.ladder import Asked, Cached, Ladder, Spilled

# What is charged for a request that broke off before anything was seen of its answer.
Unseen = Literal["prompt", "nothing"]
OTHERS = "*"
LONGEST_READY_S = 60.0


@dataclass(frozen=True, slots=True)
class Who:
    """Where a request's tenant, user and priority are found; the first that says something counts.

    A name is a field of LiteLLM's key (`team_id`, `team_alias`, `key_alias`, `user_id`,
    `end_user_id`, `org_id`, …); `metadata.x` and `team_metadata.x` look into what the key or its
    team was given. `nobody` is charged where none of them says a tenant.
    """

    tenant: Sequence[str] = ("team_id", "key_alias")
    user: Sequence[str] = ("end_user_id", "user_id")
    priority: Sequence[str] = ("metadata.tokenweir_priority",)
    nobody: str = "unknown"


@dataclass(frozen=True, slots=True)
class Settings:
    """One for all requests. `pools` says which model is served by which pool.

    Models are named as clients name them; `*` stands for all others, and what has no pool passes
    unmetered. `ready_s` is how long the first requests wait for a first decision. `spool_path` is
    a folder for what could not be sent yet; each worker makes its own inside it. `on_revoke` is
    asked what becomes of a running call whose tenant is revoked: None lets it go on.
    """

    brokers: str
    pools: Mapping[str, str]
    name: str = "litellm"
    prefix: str = ""
    who: Who = field(default_factory=Who)
    ladder: Ladder = ()
    unseen: Unseen = "nothing"
    ready_s: float = 5.0
    spool_path: Path | None = None
    on_revoke: OnRevoke | None = None

    def pool_of(self, model: str) -> str | None:
        """The pool that serves a model; None: none does."""
        return self.pools.get(model, self.pools.get(OTHERS))

    @property
    def served(self) -> tuple[str, ...]:
        """All pools that are named, each once."""
        steps = (step for rung in self.ladder for step in rung.steps)
        spills = (step.pool for step in steps if isinstance(step, Spilled))
        return tuple(dict.fromkeys((*self.pools.values(), *spills)))


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is charged, and how urgent it is."""

    tenant: str
    user: str
    priority: int


def check(settings: Settings) -> None:
    """Raise `BadInput` with all that is wrong, a line each."""
    problems = [
        *([] if settings.pools else ["pools is empty; give a model's pool, or '*' for all models"]),
        *_wrong("unseen", settings.unseen, settings.unseen in ("prompt", "nothing")),
        *_wrong("ready_s", settings.ready_s, 0 <= settings.ready_s <= LONGEST_READY_S),
        *(
            f"who.{name} is {fields!r}; allowed is a list of names"
            for name, fields in _fields(settings.who)
            if isinstance(fields, str)
        ),
        *(
            f"ladder: {step!r} is not for LiteLLM, which has a cache and hooks of its own"
            for rung in settings.ladder
            for step in rung.steps
            if isinstance(step, Asked | Cached)
        ),
    ]
    if problems:
        raise BadInput("\n".join(problems))


def caller(who: Who, key: object) -> Caller:
    """Who is charged for a request that came with this key."""
    found = _first(who.priority, key)
    return Caller(
        tenant=_first(who.tenant, key) or who.nobody,
        user=_first(who.user, key),
        priority=int(found) if found in ("1", "2", "3") else 2,
    )


def _first(names: Sequence[str], key: object) -> str:
    return next((text for name in names if (text := _text(name, key))), "")


def _text(name: str, key: object) -> str:
    holder, _, inner = name.partition(".")
    value: Any = getattr(key, holder, None)
    if inner:
        value = value.get(inner) if isinstance(value, Mapping) else None
    return "" if value is None else str(value)


def _fields(who: Who) -> tuple[tuple[str, Sequence[str]], ...]:
    return ("tenant", who.tenant), ("user", who.user), ("priority", who.priority)


def _wrong(name: str, value: object, right: bool) -> list[str]:
    allowed = {"unseen": "'prompt' and 'nothing'", "ready_s": f"0 to {LONGEST_READY_S:g} s"}
    return [] if right else [f"{name} is {value!r}; allowed are {allowed[name]}"]
