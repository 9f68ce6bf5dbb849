"""The reference of a spec's fields, in Markdown, from the model itself.

`python -m tokenweir.spec.reference docs/spec.md` writes it into a page, between its two marks.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from tokenweir.spec import words
from tokenweir.spec.classes import CORE, default_terms
from tokenweir.spec.fields import allowed, bare, fields_of, hint_of, is_mapping
from tokenweir.spec.model import Pool

BEGIN = "<!-- from the model: python -m tokenweir.spec.reference docs/spec.md -->"
END = "<!-- end -->"


def reference() -> str:
    """A table a mapping: its fields, what each may be, its default, what it means."""
    return "\n".join(line for table in _tables("", Pool, set()) for line in table)


def written_into(page: str) -> str:
    """The page with the reference between its marks."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n\n{reference()}\n{END}{rest.split(END)[1]}"


def _tables(path: str, kind: type[BaseModel], seen: set[type[BaseModel]]) -> Iterator[list[str]]:
    yield _table(path, kind)
    if path == "classes.CLASS":
        yield _class_defaults()
    for name, field in fields_of(kind).items():
        below, part = _below(name, bare(hint_of(field)))
        if below is not None and below not in seen:
            seen.add(below)  # the five classes have the same fields, as have all quotas
            part = "CLASS" if path == "classes" else part
            yield from _tables(f"{path}.{part}".lstrip("."), below, seen)


def _below(name: str, hint: Any) -> tuple[type[BaseModel] | None, str]:
    """The mapping that a field holds, alone, by name or in a list; and how its path goes on."""
    if is_mapping(hint):
        return hint, name
    for origin, place, part in ((dict, 1, f"{name}.NAME"), (list, 0, f"{name}[]")):
        if get_origin(hint) is origin and is_mapping(get_args(hint)[place]):
            return get_args(hint)[place], part
    return None, ""


def _table(path: str, kind: type[BaseModel]) -> list[str]:
    rows = [_row(name, field) for name, field in fields_of(kind).items()]
    return [
        f"### {f'`{path}`' if path else 'The pool'}",
        "",
        str(kind.__doc__),
        "",
        "| field | default | may be | meaning |",
        "|---|---|---|---|",
        *rows,
        "",
    ]


def _row(name: str, field: FieldInfo) -> str:
    hint = hint_of(field)
    may_be = "see below" if _has_parts(hint) else allowed(hint)
    return f"| `{name}` | {_default(field)} | {may_be} | {field.description} |"


def _has_parts(hint: Any) -> bool:
    return _below("", bare(hint))[0] is not None


def _default(field: FieldInfo) -> str:
    value = field.default
    if value is PydanticUndefined:
        return "required"
    if value is None or value in ({}, []) or isinstance(value, BaseModel):
        return ""
    return f"`{str(value).lower()}`"


def _class_defaults() -> list[str]:
    rows = []
    for terms in reversed(default_terms(1000)):
        wait = words.time(terms.longest_wait_ms)
        wait = "3 intervals" if terms.service_class in CORE else wait
        rows.append(
            f"| `{terms.service_class}` | {words.millionths(terms.weight)} "
            f"| {words.millionths(terms.starter)} | {wait} | {terms.on_silence} "
            f"| {terms.soft_action} | {terms.hard_action} |"
        )
    return [
        "The defaults of each class:",
        "",
        "| class | weight | starter | longest_wait | on_silence | soft | hard |",
        "|---|---|---|---|---|---|---|",
        *rows,
        "",
    ]


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(written_into(page.read_text(encoding="utf-8")), encoding="utf-8")
