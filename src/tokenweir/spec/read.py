"""From YAML to a checked spec, or to every problem at once."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tokenweir.spec.check import faults
from tokenweir.spec.document import BadSpec, Document, Place, Problem, path_of, read_document
from tokenweir.spec.fields import allowed, bare, hint_at, names_in, near
from tokenweir.spec.model import Pool

Kind = TypeVar("Kind", bound=BaseModel)


def read_spec(text: str, name: str) -> Pool:
    """The pool that the YAML in `text` describes; `name` is the file's, for errors.

    Raises `BadSpec` with every problem: its line, the field's path, the value, what is allowed.
    """
    document = read_document(text, name)
    pool, errors, dropped = _validate(Pool, document.data)
    problems = [*document.problems, *(_problem(document, Pool, error) for error in errors)]
    if pool is not None:
        problems += _across(document, pool, dropped)
    if pool is None or problems:
        raise BadSpec(name, tuple(sorted(problems, key=lambda problem: problem.line)))
    return pool


def read_fields(document: Document, kind: type[Kind]) -> tuple[Kind | None, list[Problem]]:
    """A document of another kind, its fields as `Fields` of `spec.model`; and every problem."""
    found, errors, _ = _validate(kind, document.data)
    return found, [*document.problems, *(_problem(document, kind, error) for error in errors)]


def _validate(kind: type[Kind], data: Any) -> tuple[Kind | None, list[ErrorDetails], set[Place]]:
    """The pool, the errors, and what was dropped to get a pool in spite of them.

    Without the dropping there could be no check across fields while one of them is wrong.
    """
    found: list[ErrorDetails] = []
    dropped: set[Place] = set()
    while True:
        try:
            return kind.model_validate(data), found, dropped
        except ValidationError as error:
            errors = error.errors(include_url=False)
        found = found or errors  # later ones are about what was dropped
        places = {_to_drop(error) for error in errors}
        if () in places:
            return None, found, dropped
        dropped |= places
        data = _without(data, places)


def _to_drop(error: ErrorDetails) -> Place:
    inside = error["type"] == "missing" or error["loc"][-1:] == ("[key]",)
    return error["loc"][:-1] if inside else error["loc"]


def _without(data: Any, places: set[Place]) -> Any:
    data = deepcopy(data)
    # The innermost first: what lies around them may be dropped as well.
    for place in sorted(places, key=len, reverse=True):
        around = data
        for part in place[:-1]:
            around = around[part]
        del around[place[-1]]
    return data


def _problem(document: Document, kind: type[BaseModel], error: ErrorDetails) -> Problem:
    """One error of pydantic in our words."""
    place: Place = error["loc"]
    shown = f"value {_shown(document, place, error['input'])}"
    if place[-1:] == ("[key]",):
        place = place[:-1]
        shown, said = "this name", allowed(get_args(bare(hint_at(place[:-1], kind)))[0])
    elif error["type"] == "extra_forbidden":
        shown, said = "unknown field", near(str(place[-1]), names_in(hint_at(place[:-1], kind)))
    elif error["type"] == "missing":
        shown, said = "missing", allowed(hint_at(place, kind))
    elif error["type"] == "literal_error":
        said = near(str(error["input"]), list(get_args(bare(hint_at(place, kind)))))
    else:
        said = allowed(hint_at(place, kind))
    return Problem(document.line(place), path_of(place), shown, said)


def _shown(document: Document, place: Place, given: object) -> str:
    """A value as it stands in the file."""
    if place in document.texts:
        return repr(document.texts[place])
    return "a list" if isinstance(given, list) else "a mapping"


def _across(document: Document, pool: Pool, dropped: set[Place]) -> Iterator[Problem]:
    """What is wrong between fields, except where one of them is wrong by itself."""
    for fault in faults(pool):
        places = (fault.place, *fault.others)
        if not any(place[: len(gone)] == gone for place in places for gone in dropped):
            written = next((place for place in places if place in document.lines), fault.place)
            line = document.line(written)
            yield Problem(line, path_of(fault.place), f"value {fault.value}", fault.allowed)
