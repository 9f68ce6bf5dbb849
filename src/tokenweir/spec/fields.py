"""The fields of the model by their path, and what each may be, in words."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tokenweir.spec.document import Place
from tokenweir.spec.model import Pool


def fields_of(kind: type[BaseModel]) -> Mapping[str, FieldInfo]:
    """The fields of a mapping by the name that they have in the spec."""
    return {field.alias or name: field for name, field in kind.model_fields.items()}


def names_in(hint: Any) -> list[str]:
    """The names of the fields of a mapping's type."""
    return list(fields_of(bare(hint)))


def hint_of(field: FieldInfo) -> Any:
    """A field's type with its metadata, which pydantic keeps beside it."""
    return Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation


def hint_at(place: Place, kind: type[BaseModel] = Pool) -> Any:
    """The type of what may stand at `place` of a document of this kind; None where nothing may."""
    hint: Any = kind
    for part in place:
        hint = _inside(bare(hint), str(part))
    return hint


def allowed(hint: Any) -> str:
    """What a value of this type may be."""
    for layer in _layers(hint):
        for note in getattr(layer, "__metadata__", ()):
            return str(note.allowed)
    inner = bare(hint)
    if get_origin(inner) is Literal:
        return either(list(get_args(inner)))
    if inner is bool:
        return "true or false"
    if is_mapping(inner):
        return f"a mapping with fields such as {', '.join(names_in(inner)[:3])}"
    if get_origin(inner) is list:
        return f"a list; each item {allowed(get_args(inner)[0])}"
    return "a mapping of names"  # to texts, or to mappings of their own


def near(word: str, choices: list[str]) -> str:
    """The choices, behind the one that was probably meant."""
    close = get_close_matches(word, choices, 1)
    meant = f"did you mean {close[0]}? Allowed: " if close else ""
    return meant + either(choices)


def either(words: list[str]) -> str:
    """One of these words."""
    return " or ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)


def is_mapping(hint: Any) -> bool:
    """Whether the type is a mapping with named fields."""
    return isinstance(hint, type) and issubclass(hint, BaseModel)


def bare(hint: Any) -> Any:
    """The type without None and metadata."""
    *_, inner = _layers(hint)
    return inner


def _inside(hint: Any, part: str) -> Any:
    if is_mapping(hint):
        field = fields_of(hint).get(part)
        return None if field is None else hint_of(field)
    if get_origin(hint) is list:
        return get_args(hint)[0] if part.isdecimal() else None
    return get_args(hint)[1] if get_origin(hint) is dict else None


def _layers(hint: Any) -> Iterator[Any]:
    """The type, and what it is wrapped in first: metadata, a union with None."""
    yield hint
    if get_origin(hint) in (Annotated, Union, UnionType):
        yield from _layers(get_args(hint)[0])
