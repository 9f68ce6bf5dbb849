"""Read a degrade ladder from plain data, as YAML or JSON gives it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from tokenweir.errors import BadInput
from tokenweir.gateway.ladder import (
    ACTIONS,
    TIERS,
    Asked,
    Batched,
    Cached,
    Canned,
    Cheaper,
    Ladder,
    Rung,
    Shorter,
    Spilled,
    Step,
)
from tokenweir.records.spec import CLASSES

# Not `on`: YAML 1.1 reads that as true.
FIELDS = ("from", "action", "classes", "when", "do")
Choice = TypeVar("Choice")


def read_ladder(data: object) -> Ladder:
    """The ladder in a list of rungs: `from`, `action`, `classes`, `when` and `do`.

    Raises `BadInput` with every problem that it has, a line each.
    """
    problems: list[str] = []
    rungs = [
        _rung(entry, f"ladder[{place}]", problems)
        for place, entry in enumerate(_list("ladder", data, problems))
    ]
    if problems:
        raise BadInput("\n".join(problems))
    return tuple(rungs)


def _rung(entry: object, at: str, problems: list[str]) -> Rung:
    given = _mapping(at, entry, problems)
    for name in given:
        if name not in FIELDS:
            problems.append(f"{at}.{name}: not known; allowed are {', '.join(FIELDS)}")
    steps = _list(f"{at}.do", given.get("do"), problems)
    when = _one_of(f"{at}.when", given.get("when", "asked"), ("asked", "refused"), problems)
    classes = _list(f"{at}.classes", given.get("classes", []), problems)
    return Rung(
        steps=tuple(_steps(steps, f"{at}.do", when == "refused", problems)),
        tier=_one_of(f"{at}.from", given.get("from", TIERS[0]), TIERS, problems),
        action=_one_of(f"{at}.action", given.get("action", ACTIONS[0]), ACTIONS, problems),
        classes=frozenset(_one_of(f"{at}.classes", name, CLASSES, problems) for name in classes),
        refused=when == "refused",
    )


def _steps(
    entries: Sequence[object], at: str, refused: bool, problems: list[str]
) -> Iterator[Step]:
    """Each step is a mapping with one name, as `max_tokens: 512`."""
    known = _AFTER if refused else _BEFORE
    for place, entry in enumerate(entries):
        given = _mapping(f"{at}[{place}]", entry, problems)
        if len(given) != 1 or next(iter(given)) not in known:
            problems.append(f"{at}[{place}] is {entry!r}; allowed is one of {', '.join(known)}")
            continue
        ((name, value),) = given.items()
        try:
            yield known[name](value)
        except BadInput as error:
            problems.append(f"{at}[{place}].{name} is {value!r}; allowed is {error}")


def _model(value: object) -> Step:
    if isinstance(value, Mapping) and value and all(map(_text, [*value, *value.values()])):
        return Cheaper(dict(value))
    raise BadInput("a mapping of models to cheaper ones")


def _max_tokens(value: object) -> Step:
    if type(value) is int and value > 0:
        return Shorter(value)
    raise BadInput("a whole number above 0")


def _cache(value: object) -> Step:
    if value in ("first", "only"):
        return Cached(value == "only")
    raise BadInput("first or only")


def _ask(value: object) -> Step:
    return Asked(_named(value, "the name of a callback"))


def _canned(value: object) -> Step:
    return Canned(_named(value, "a text"))


def _service_tier(value: object) -> Step:
    return Batched(_named(value, "the name of a provider's tier"))


def _spill(value: object) -> Step:
    if isinstance(value, Mapping) and set(value) <= {"pool", "model"} and _text(value.get("pool")):
        return Spilled(value["pool"], _named(value.get("model", " "), "a model").strip())
    raise BadInput("a mapping with pool and, if it differs, model")


_READERS: Mapping[str, Callable[[object], Step]] = {
    "model": _model,
    "max_tokens": _max_tokens,
    "batch": _service_tier,
    "cache": _cache,
    "ask": _ask,
    "canned": _canned,
    "spill": _spill,
}
_BEFORE = {name: read for name, read in _READERS.items() if name != "spill"}
_AFTER = {name: _READERS[name] for name in ("cache", "ask", "canned", "spill")}


def _named(value: object, what: str) -> str:
    if isinstance(value, str) and value:
        return value
    raise BadInput(what)


def _text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _list(at: str, value: object, problems: list[str]) -> Sequence[Any]:
    if isinstance(value, (list, tuple)):
        return value
    problems.append(f"{at} is {value!r}; allowed is a list")
    return ()


def _mapping(at: str, value: object, problems: list[str]) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    problems.append(f"{at} is {value!r}; allowed is a mapping")
    return {}


def _one_of(at: str, value: object, choices: Sequence[Choice], problems: list[str]) -> Choice:
    for choice in choices:
        if choice == value:
            return choice
    problems.append(f"{at} is {value!r}; allowed are {', '.join(map(str, choices))}")
    return choices[0]
