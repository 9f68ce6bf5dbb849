"""YAML with the line of every value, so that an error can name it.

Scalars follow YAML 1.2 (`no` and `on` are text, `1e3` is a number), numbers with a point are
`Decimal`, keys are the text that stands there. Keys that stand twice are problems, as are aliases.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

import yaml

from tokenweir.errors import BadInput

Place = tuple[str | int, ...]  # the keys and list positions that lead to a value


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong in a document."""

    line: int
    path: str
    value: str
    allowed: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.path, self.value, self.allowed) if part)


class BadSpec(BadInput):
    """A document that cannot be used; the message has a line for each of its problems."""

    def __init__(self, name: str, problems: tuple[Problem, ...]) -> None:
        self.name = name
        self.problems = problems
        super().__init__("\n".join(f"{name}:{problem.line}: {problem}" for problem in problems))


@dataclass(frozen=True, slots=True)
class Document:
    """What a YAML document says, with the line and the text of each value."""

    name: str
    data: Any
    lines: Mapping[Place, int]
    texts: Mapping[Place, str]
    problems: tuple[Problem, ...]

    def line(self, place: Place) -> int:
        """The line of the value at `place`, or of the nearest one around it."""
        while place not in self.lines and place:
            place = place[:-1]
        return self.lines.get(place, 1)


def read_document(text: str, name: str) -> Document:
    """The one YAML document in `text`; raises `BadSpec` when it is not YAML."""
    try:
        node = yaml.compose(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise BadSpec(name, (Problem(line, "", "not YAML", error.problem or ""),)) from error
    except yaml.YAMLError as error:
        raise BadSpec(name, (Problem(1, "", "not YAML", str(error).splitlines()[0]),)) from error
    tree = _Tree()
    data = None if node is None else tree.value(node, ())
    return Document(name, data, tree.lines, tree.texts, tuple(tree.problems))


def path_of(place: Place) -> str:
    """A place as people write it: tenants.acme.class."""
    return ".".join(str(part) for part in place)


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # either one
    """Resolves plain scalars as YAML 1.2 does."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}  # `_plain` resolves


_NUMBER = re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?", re.ASCII)
_WORDS: Mapping[str, Any] = {
    "": None,
    "~": None,
    "null": None,
    "true": True,
    "false": False,
    ".nan": Decimal("nan"),
    ".inf": Decimal("inf"),
    "-.inf": Decimal("-inf"),
}


def _plain(text: str) -> Any:
    """What a scalar without quotes stands for."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if not _NUMBER.fullmatch(text):
        return text
    return int(text) if text.lstrip("+-").isdecimal() else Decimal(text)


class _Tree:
    """Turns nodes into values and notes where they stood."""

    def __init__(self) -> None:
        self.lines: dict[Place, int] = {}
        self.texts: dict[Place, str] = {}
        self.problems: list[Problem] = []
        self._seen: set[int] = set()

    def value(self, node: yaml.Node, place: Place) -> Any:
        """The value of `node`, which stands at `place`."""
        line = node.start_mark.line + 1
        self.lines.setdefault(place, line)
        if id(node) in self._seen:
            self._problem(line, place, "an alias", "write the value out")
            return None
        self._seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            return dict(self._items(node, place))
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*place, at)) for at, item in enumerate(node.value)]
        return self._scalar(node, place)

    def _scalar(self, node: Any, place: Place) -> Any:
        self.texts[place] = node.value
        return node.value if node.style else _plain(node.value)  # a style: it had quotes

    def _items(self, node: yaml.MappingNode, place: Place) -> Iterator[tuple[str, Any]]:
        for key, value in node.value:
            line = key.start_mark.line + 1
            inside = (*place, key.value) if isinstance(key, yaml.ScalarNode) else place
            if inside == place:
                self._problem(line, place, "a key that is not a name", "a name before the colon")
            elif inside in self.lines:
                first = self.lines[inside]
                self._problem(line, inside, "a second time", f"it stands on line {first} already")
            else:
                self.lines[inside] = line
                yield key.value, self.value(value, inside)

    def _problem(self, line: int, place: Place, value: str, allowed: str) -> None:
        self.problems.append(Problem(line, path_of(place), value, allowed))
