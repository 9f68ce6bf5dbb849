"""Figures as people write them: arithmetic over measures, {RUN TENANT MEASURE PHASE}.

`{with chat ttft.p99 burst} / {solo chat ttft.p99 burst}`. TENANT may be a pattern (dev-*, or * for
all) or `pool`; PHASE may be left out, and is then the whole run. + - * /, numbers, min, max, sum,
mean and jain, Jain's fairness index (Σx)² / (n·Σx²).
"""

import ast
import operator
import re
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import nan

from tokenweir.sim.measures import MEASURES

_BRACES = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class Reference:
    """One measure: of which run, tenants and phase."""

    run: str
    tenant: str
    measure: str
    phase: str


def jain(*values: float) -> float:
    """Jain's fairness index: 1 when all are equal, 1/n when one has everything."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else nan


def mean(*values: float) -> float:
    """The average."""
    return sum(values) / len(values)


def total(*values: float) -> float:
    """The sum."""
    return sum(values)


_FUNCTIONS: Mapping[str, Callable[..., float]] = {
    "min": min,
    "max": max,
    "sum": total,
    "mean": mean,
    "jain": jain,
}
_OPERATORS: Mapping[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda a, b: a / b if b else nan,
}


def evaluate(text: str, measured: Callable[[Reference], float]) -> float:
    """The expression's value; `measured` looks measures up. Raises `ValueError` if it is none."""
    references: list[str] = []

    def name(found: re.Match[str]) -> str:
        references.append(found[1])
        return f"_{len(references) - 1}"

    try:
        tree = ast.parse(_BRACES.sub(name, text).strip(), mode="eval")
    except SyntaxError as error:
        raise ValueError(f"is no expression: {error.msg}") from error
    return _value(tree.body, lambda at: measured(parse(references[at])))


def parse(text: str) -> Reference:
    """What stands in braces; raises `ValueError` if it is no reference."""
    words = text.split()
    if len(words) not in (3, 4):
        raise ValueError(f"{{{text}}}: allowed is {{RUN TENANT MEASURE}} or {{… PHASE}}")
    return Reference(words[0], words[1], words[2], words[3] if len(words) == 4 else "all")


def check(
    text: str, runs: Container[str], phases: Container[str], tenants: Iterable[str]
) -> str | None:
    """Why an expression cannot be computed; None if it can."""

    def known(one: Reference) -> float:
        if one.run not in runs:
            raise ValueError(f"no run has the name {one.run!r}")
        if one.phase not in phases:
            raise ValueError(f"no phase has the name {one.phase!r}")
        if one.tenant != "pool" and not any(fnmatchcase(name, one.tenant) for name in tenants):
            raise ValueError(f"no workload is of a tenant {one.tenant!r}")
        if not any(pattern.fullmatch(one.measure) for pattern in MEASURES):
            names = ", ".join(MEASURES.values())
            raise ValueError(f"no measure has the name {one.measure!r}: there are {names}")
        return 1.0

    try:
        evaluate(text, known)
    except ValueError as error:
        return str(error)
    return None


def _value(node: ast.expr, looked_up: Callable[[int], float]) -> float:
    match node:
        case ast.Constant(value=int() | float() as number) if type(number) is not bool:
            return float(number)
        case ast.Name(id=name) if re.fullmatch(r"_\d+", name):
            return looked_up(int(name[1:]))
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_value(inner, looked_up)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left, looked_up), _value(right, looked_up))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if (
            name in _FUNCTIONS and args
        ):
            return _FUNCTIONS[name](*(_value(each, looked_up) for each in args))
    allowed = f"numbers, + - * /, {', '.join(_FUNCTIONS)}, and measures in braces"
    raise ValueError(f"{ast.unparse(node)!r} is not allowed: {allowed}")
